"""The commands of the command line: their options, and what they print. pipeline/cli.py lists them."""
