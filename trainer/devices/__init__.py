"""What a training runs on: strategies, precision, and the process of a distributed training."""
