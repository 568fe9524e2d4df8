"""Examples without compression, for the tests of what reads them."""

import gzip
from copy import deepcopy
from pathlib import Path
from typing import Any

from tfx.types import standard_artifacts


def unpacked(examples: Any, folder: Path) -> standard_artifacts.Examples:
    """A copy of an Examples artifact, every shard unpacked and without `.gz` in its name."""
    copy = standard_artifacts.Examples()
    copy.set_mlmd_artifact(deepcopy(examples.mlmd_artifact))
    copy.uri = str(folder)
    for shard in Path(examples.uri).glob("Split-*/*.gz"):
        path = folder / shard.parent.name / shard.stem
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.decompress(shard.read_bytes()))
    return copy
