"""Print the uv that uv.lock names as a requirement with hashes: what installs the locked packages is locked too."""

import sys
import tomllib
from pathlib import Path

for package in tomllib.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["package"]:
    if package["name"] == "uv":
        hashes = " ".join(f"--hash={wheel['hash']}" for wheel in package["wheels"])
        print(f"uv=={package['version']} {hashes}")
