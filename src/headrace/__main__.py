"""`python -m headrace` is `headrace`."""

from headrace.pipeline.cli import main

if __name__ == "__main__":
    main()
