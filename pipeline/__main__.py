"""`python -m pipeline` is `headrace`."""

from pipeline.cli import main

if __name__ == "__main__":
    main()
