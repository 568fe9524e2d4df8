"""What weights mean and where they come from, for trainings that begin with an earlier model's."""
