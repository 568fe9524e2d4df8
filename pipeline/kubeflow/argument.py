"""A long text as one argument of a program. Linux refuses more than 131,072 bytes, which many columns may fill."""

from __future__ import annotations

import base64
import zlib

from headrace.configs.errors import RunError

PLAIN = 60_000
"""Characters that are readable as they are in Kubeflow's interface; longer texts are compressed."""
LONGEST = 120_000
START = "zlib:"


def pack(text: str, what: str) -> str:
    """The text, compressed if it is long. Raises RunError, naming `what`, if it is too long even so."""
    if len(text) <= PLAIN:
        return text
    packed = START + base64.b64encode(zlib.compress(text.encode(), 9)).decode()
    if len(packed) > LONGEST:
        raise RunError(
            f"{what} takes {len(packed):,} characters, compressed, and an argument of a pod may have {LONGEST:,}.\n"
            "  Long lists of values belong into files in the image or on a volume. If it lists files: read fewer and"
            " larger ones, or fewer spans at once."
        )
    return packed


def unpack(argument: str) -> str:
    """What `pack` was given."""
    if not argument.startswith(START):
        return argument
    return zlib.decompress(base64.b64decode(argument.removeprefix(START))).decode()
