"""What weights mean and where they come from, for trainings that start from an earlier model's weights."""
