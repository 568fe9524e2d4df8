"""Models of two small files, for the tests of what copies and compares files."""

from pathlib import Path


def small_model(folder: Path) -> Path:
    """A model whose files are no TensorFlow's; the folder that is pushed."""
    directory = folder / "model" / "Format-Serving"
    (directory / "variables").mkdir(parents=True)
    (directory / "saved_model.pb").write_bytes(b"graph")
    (directory / "variables" / "variables.index").write_bytes(b"weights")
    return directory


def contents(directory: Path) -> dict[str, bytes]:
    """The bytes of each file in a folder, by its relative path."""
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}
