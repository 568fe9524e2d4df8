"""The devices that a training runs on: strategies, distributed training, and errors of devices."""
