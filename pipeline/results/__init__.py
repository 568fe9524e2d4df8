"""What a run leaves: its record, its folder, and the verdict on its model."""
