"""Make two published wheels load on a C library older than the one they were built on.

The ml-metadata and tensorflow-data-validation wheels are tagged manylinux_2_39, so that Debian 12 and Ubuntu 22.04
(glibc 2.36, 2.35) refuse them. They need only six symbols of the newer libraries: four are the strto* functions under
their C23 names, one is another name of `std::terminate`, and one is an iostream marker that nothing refers to. This
binds each to its older equivalent and removes the version requirements; no code changes.

`make` runs this after every `uv sync`. It does nothing on a newer C library, or if it has already run.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

BUILT_FOR = (2, 39)
EXTENSIONS = {
    "ml_metadata": "metadata_store/pywrap/metadata_store_extension.so",
    "tensorflow_data_validation": "pywrap/tensorflow_data_validation_extension.so",
}
NEWER_VERSIONS = frozenset({"GLIBC_2.38", "GLIBCXX_3.4.32", "CXXABI_1.3.15"})
OLDER_NAMES = {
    "__isoc23_strtol": "strtol",
    "__isoc23_strtoll": "strtoll",
    "__isoc23_strtoul": "strtoul",
    "__isoc23_strtoull": "strtoull",
    "__cxa_call_terminate": "_ZSt9terminatev",
}


def glibc_version() -> tuple[int, ...] | None:
    """The version of the running C library, or None if it is not glibc."""
    name = os.confstr("CS_GNU_LIBC_VERSION") if "CS_GNU_LIBC_VERSION" in os.confstr_names else None
    return tuple(int(part) for part in name.split()[1].split(".")) if name else None


def relabel(library: Path) -> bool:
    """Rewrite one shared library. Returns False if it needs no newer symbol."""
    import lief

    elf = lief.ELF.parse(library)
    if elf is None:
        sys.exit(f"{library} is not a shared library; remove .venv and run `make env` again")
    newer = [
        symbol
        for symbol in elf.dynamic_symbols
        if symbol.symbol_version
        and symbol.symbol_version.symbol_version_auxiliary
        and symbol.symbol_version.symbol_version_auxiliary.name in NEWER_VERSIONS
    ]
    if not newer:
        return False
    for symbol in newer:
        if symbol.symbol_version:
            symbol.symbol_version.as_global()
        symbol.name = OLDER_NAMES.get(str(symbol.name), str(symbol.name))
    for requirement in elf.symbols_version_requirement:
        for version in NEWER_VERSIONS:
            requirement.remove_aux_requirement(version)
    relabelled = library.with_suffix(".relabelled")
    elf.write(relabelled)
    relabelled.replace(library)  # a new file: uv may have hard-linked the old one to its cache
    return True


def main() -> None:
    version = glibc_version()
    if version is None or version >= BUILT_FOR:
        return
    for package, extension in EXTENSIONS.items():
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            sys.exit(f"{package} is not installed; run `make env` first")
        if relabel(Path(spec.origin).parent / extension):
            print(f"relabelled {package} for glibc {'.'.join(map(str, version))}")


if __name__ == "__main__":
    main()
