"""Passwords, keys and tokens: what a page that others see must not repeat.

A config has no business holding any, and what is read here has been through that check; but a user's own options may
hold anything.
"""

from __future__ import annotations

import re
from typing import Any

from configs.passwords import hidden

HIDDEN = "***"
_NAMES = re.compile(
    r"(?:^|[_.-])(?:pass(?:word|wd|phrase)?|pwd|secret|(?:access|auth|api|bearer|refresh|id)[_-]?token|token"
    r"|(?:api|access|account|private|secret|signing|encryption)[_-]?key(?:[_-]?id)?|credentials?)$",
    re.IGNORECASE,
)
"""Names of settings: `db_password`, `api_key`, `token`; not `tokens`, nor `max_token`'s neighbours such as `key`."""
_LOOKS = re.compile(
    r"""
      -----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY-----.*?(?:-----END[ ][A-Z ]*PRIVATE[ ]KEY-----|\Z)
    | \b(?:AKIA|ASIA)[0-9A-Z]{16}\b                                # Amazon
    | \bAIza[0-9A-Za-z_-]{35}                                      # Google
    | \bya29\.[0-9A-Za-z_-]{20,}
    | \b(?:gh[pousr]_[0-9A-Za-z]{30,}|github_pat_[0-9A-Za-z_]{30,}|glpat-[0-9A-Za-z_-]{20,})
    | \bhf_[0-9A-Za-z]{30,}                                        # Hugging Face
    | \bsk-[0-9A-Za-z_-]{20,}
    | \bxox[abeprs]-[0-9A-Za-z-]{10,}                              # Slack
    | \beyJ[0-9A-Za-z_-]{10,}\.[0-9A-Za-z_-]{10,}\.[0-9A-Za-z_-]*  # a JSON web token
    | (?<=[?&]sig=)[^&\s"']+                                       # Azure
    | (?<=[?&]X-Amz-Signature=)[^&\s"']+
    | (?<=[?&]X-Goog-Signature=)[^&\s"']+
    | (?<=\bBearer[ ])[0-9A-Za-z._~+/-]{16,}=*
    """,
    re.VERBOSE | re.DOTALL,
)


def without(text: str) -> str:
    """The text with `***` for passwords in URLs, and for what has the form of a key or a token."""
    return _LOOKS.sub(HIDDEN, hidden(text))


def stripped(value: Any) -> Any:
    """The same of a tree of mappings and lists; also `***` for what stands under a name such as `api_key`.

    A feature is a column's, which may have any name: what is said of it is shown.
    """
    if isinstance(value, dict):
        return {
            without(key) if isinstance(key, str) else key: _hidden(item)
            if _NAMES.search(str(key)) and not (isinstance(item, dict) and "column" in item)
            else stripped(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [stripped(item) for item in value]
    return without(value) if isinstance(value, str) else value


def _hidden(value: Any) -> Any:
    """Nothing of it but whether it is set, and the names of a mapping."""
    if isinstance(value, dict):
        return {without(key) if isinstance(key, str) else key: _hidden(item) for key, item in value.items()}
    return HIDDEN if value and value is not True else value
