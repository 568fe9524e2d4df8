"""Write image/measured.json: the sizes of the packages that only the image has, not a developer's machine.

    .venv/bin/python tools/measure_wheels.py        # downloads those wheels, about 3 GB, one after the other

`pipeline/image/size.py` reads the file. Run this when the lock gets another TensorFlow; a test reminds you.
"""

import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from headrace.pipeline.image.size import counted, layers, listed

ROOT = Path(__file__).resolve().parents[1]
MEASURED = ROOT / "image" / "measured.json"


def measure(requirement: str) -> int:
    """Bytes that a package takes in the image."""
    left_out = listed(ROOT / "image" / "left-out-files.txt")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(  # noqa: S603 - pip
            [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, requirement], check=True
        )
        (wheel,) = Path(folder).iterdir()
        with zipfile.ZipFile(wheel) as opened:
            return counted(((_installed(info.filename), info.file_size) for info in opened.infolist()), left_out)


def _installed(name: str) -> str:
    """`x.data/purelib/a/b` is installed as `a/b`."""
    head, _, rest = name.partition("/")
    return rest.partition("/")[2] if head.endswith(".data") else name


if __name__ == "__main__":
    MEASURED.write_text("{}\n", encoding="utf-8")
    wanted = sorted({package for variant in ("cpu", "gpu") for package in layers(ROOT, variant)[1]})
    sizes = {package: measure(package) for package in wanted}
    MEASURED.write_text(json.dumps(sizes, indent=1) + "\n", encoding="utf-8")
    print(f"{len(sizes)} packages, {sum(sizes.values()) / 1e9:.1f} GB")
