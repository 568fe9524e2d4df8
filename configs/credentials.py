"""What credentials are called and look like: one table for the config's rules, the compiled file, the image, pages and
messages.

The password in a URL is `headrace.configs.passwords`' part where it is to be hidden.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from headrace.configs.passwords import hidden, hidden_in_url

_HARMLESS_KEYS = (
    "cache|cluster|clustering|column|composite|dedup|example|feature|foreign|group|hash|index|join|label|lookup|"
    "natural|object|order|partition|primary|public|range|route|routing|row|shard|sort|split|text|unique"
)
SECRETIVE = re.compile(
    r"PASSW|PASSPHRASE|(?:^|_)PASS$|_PWD$|SECRET|TOKEN|CREDENTIAL|(?:PRIVATE|ACCESS|API)_?KEY"
    r"|(?:^|_)(?:AUTHORIZATION|COOKIE)$"
    rf"|(?<![A-Z0-9])(?!(?:{_HARMLESS_KEYS})_)[A-Z0-9]+_KEY$",
    re.IGNORECASE,
)
"""Environment variables that hold secrets, or have to do with them: `STRIPE_KEY`, `TOKENIZER`; not `SORT_KEY`."""
FIELD = re.compile(
    r"(?:^|[_.-])(?:passphrase|pwd|secret|(?:api|access|account|storage|private|secret|signing|encryption)[_-]?key"
    r"|credentials?)$"
    r"|passw(?:or)?d$|^pass$|(?:^|[_.-])(?:access|auth|api|bearer|id|refresh|session|security)[_-]?token$|^token$"
    r"|^(?:proxy[_-])?authorization$|^(?:(?:set|session)[_-])?cookie$",
    re.IGNORECASE,
)
"""Settings that hold a secret and nothing else: `db_password`, `api_key`; not `pad_token`, nor `max_tokens`."""
VARIABLE = re.compile(rf"{FIELD.pattern}|_PASS$|_TOKEN$", re.IGNORECASE)
"""The same of environment variables."""
HIDEABLE = re.compile(rf"{VARIABLE.pattern}|[.-](?:pass|token)$|[_-]key[_-]?id$", re.IGNORECASE)
"""Settings that may hold a secret: what hides them asks for less than what refuses them."""

KEYS = {
    "a private key": re.compile(
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:.*?-----END [A-Z ]*PRIVATE KEY-----|[\w+/=\s\\:,.-]*)", re.DOTALL
    ),
    "an access key of AWS": re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    "an API key of Google": re.compile(r"\bAIza[0-9A-Za-z_-]{35}"),
    "a token of Google": re.compile(r"\bya29\.[0-9A-Za-z_-]{20,}"),
    "a key of Azure": re.compile(r"(?:(?<=\bAccountKey=)|(?<=\bSharedAccessKey=))[0-9A-Za-z+/=]{8,}", re.IGNORECASE),
    "a token of GitHub": re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[0-9A-Za-z_]{30,})"),
    "a token of GitLab": re.compile(r"\bglpat-[0-9A-Za-z_-]{20,}"),
    "a token of PyPI": re.compile(r"\bpypi-AgE[0-9A-Za-z_-]{16,}"),
    "a token of npm": re.compile(r"\bnpm_[0-9A-Za-z]{30,}"),
    "a token of DigitalOcean": re.compile(r"\bdo[opr]_v1_[0-9a-f]{40,}"),
    "a token of Hugging Face": re.compile(r"\bhf_[0-9A-Za-z]{30,}"),
    "a key of Stripe": re.compile(r"\b[sr]k_(?:live|test)_[0-9A-Za-z]{16,}"),
    "a secret key": re.compile(r"\bsk-(?=[A-Za-z_-]*[0-9])[0-9A-Za-z_-]{20,}"),
    "a token of Slack": re.compile(r"\bxox[abeprs]-[0-9A-Za-z-]{10,}|(?<=\bhooks\.slack\.com/services/)T\w+/B\w+/\w+"),
    "a JSON web token": re.compile(r"\beyJ[0-9A-Za-z_-]{10,}\.[0-9A-Za-z_-]{10,}\.[0-9A-Za-z_-]*"),
    "a URL with a token": re.compile(r"(?:(?<=http://)|(?<=https://))(?=[^/@]*[0-9])[0-9A-Za-z_.~-]{16,}(?=@)"),
    "a signed URL": re.compile(
        r"(?:(?<=[?&]sig=)|(?<=[?&]X-Amz-Signature=)|(?<=[?&]X-Goog-Signature=))[0-9A-Za-z%+/=_-]+"
    ),
}
"""What has the form of a credential wherever it stands; all that is matched is the secret."""
_BEARER = re.compile(r"(?<=\bBearer )[0-9A-Za-z._~+/-]{16,}=*")
HIDDEN = "***"
CERTAIN = {
    "a URL with a password": re.compile(
        r"[a-z][a-z0-9+.-]*://[^\s/\"'@:\\]*:(?P<secret>[^\s/\"'@\\]+)@"
        r"|://\S*[?&;](?:password|passwd|pwd|secret|sig|token|access_token|api_?key)=[^&\s\"'\\]",
        re.IGNORECASE,
    ),
    **KEYS,
}
"""The same with its surroundings."""
SHAPES = {
    **CERTAIN,
    "an option with a credential": re.compile(
        r"(?<![\w-])--[a-z0-9_-]*(?:password|secret|token|credential|access_key|api_key)[a-z0-9_-]*[= ]"
        r"(?P<secret>[^\s\"'\\]+)",
        re.IGNORECASE,
    ),
    "a header with a credential": re.compile(
        r"\bauthorization[\"']?\s*[:=]\s*[\"']?(?:basic|bearer)\s+(?P<secret>[^\s\"',;]+)"
        r"|(?:^|,)\s*(?:[\w-]*api[_-]?key|[\w-]*access[_-]?token|authorization|x-[\w-]*(?:key|token))="
        r"(?P<listed>[^\s,;$<{*]{4}[^\s,;]*)",
        re.IGNORECASE | re.MULTILINE,
    ),
    "the value of a header": re.compile(
        r"^(?:Bearer (?P<secret>[^\s$<{*]{6,})"
        r"|Basic (?P<listed>(?=\S*(?:[a-z][A-Z]|=$))(?:[0-9A-Za-z+/]{4})+(?:[0-9A-Za-z+/]{2}==|[0-9A-Za-z+/]{3}=)?))$",
        re.MULTILINE,
    ),
    "a connection with a password": re.compile(
        r"^(?=.*\b(?:host|hostaddr|server|user|uid|user id|dbname|database)\s*=)"
        r".*(?<![\w-])(?:password|passwd|pwd)\s*=\s*(?P<secret>'(?:[^'\\\n]|\\.)*'|[^\s;$<{*][^\s;]*).*$",
        re.IGNORECASE | re.MULTILINE,
    ),
}
"""The rest is in code too that takes a credential from the environment: `connect(password=PASSWORD)`."""

_WELL_KNOWN = ("minio123", "minioadmin")
_LEAST = 16
_PIECES = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
"""Of a name, such as `rootAccessKey2`: words and numbers."""
_NUMBERS, _LETTERS = 4, 3


def is_no_name(text: str) -> bool:
    """Whether a text is rather a secret than the name of one: it has the form of a key, or looks random, as it has many
    numbers in it, or changes of case that cut a long word into small pieces.
    """
    plain = re.sub(r"[^A-Za-z0-9]", "", text)
    longest = max(re.findall(r"[A-Za-z0-9]+", text), key=len, default="")
    random = len(plain) >= _LEAST and len(re.findall(r"[0-9]+", plain)) >= _NUMBERS
    random |= len(longest) >= _LEAST and len(_PIECES.findall(longest)) * _LETTERS > len(longest)
    return random or text in _WELL_KNOWN or any(shape.search(text) for shape in KEYS.values())


_NAMED = re.compile(
    r"(?:(?<![\w./-])(?<!column [\"'])(?P<quoted>[\w-]{1,64})\\?[\"']\s*[:=]\s*(?=\\?[\"']|\d{4})"
    r"|(?<![\w./-])(?P<plain>[\w-]{1,64})\s*[:=]\s*(?=[\"'])"
    r"|(?<![\w./])(?P<set>[\w.-]{1,64})=(?=[^\s,;&\"'$<{*]))"
    r"(?=(?P<secret>\\\"[^\"\n]*(?:\")?|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|[^\s,;&\"']+))",
)
"""A value under a name, as Python, JSON, shells and connection texts write it; not `column 'token': found 3`."""
_NO_SECRET = re.compile(r"[\"']?(?:none|null|true|false|string|bytes|int|float|\*+|)[\"']?[)\]}]*", re.IGNORECASE)
_IN_MESSAGES = (*(shape for what, shape in SHAPES.items() if what != "a URL with a password"), _BEARER)
"""`headrace.configs.passwords` hides those of URLs."""


def without(text: str) -> str:
    """The text with `***` for passwords in URLs, and for all else that a config must not hold: what has the form of a
    key or a token, headers, connections and options with a credential, and values under names such as `password`.
    """
    text = hidden(text)
    for shape in _IN_MESSAGES:
        text = shape.sub(_starred, text)
    return _without_named(text)


def value_without(value: str) -> str:
    """The same of a text that may be one URL, white space within its password and all."""
    return without(hidden_in_url(value))


def _starred(found: re.Match[str]) -> str:
    """What was found, with `***` for the part of it that is the secret."""
    group = next((name for name, secret in found.groupdict().items() if secret), 0)
    start, end = found.start(group) - found.start(), found.end(group) - found.start()
    return f"{found[0][:start]}{HIDDEN}{found[0][end:]}"


def _without_named(text: str) -> str:
    """A value under another name may hold such a name in its turn: `{"error": "password=..."}`."""
    parts, done = list[str](), 0
    for found in _NAMED.finditer(text):
        start, end = found.span("secret")
        if start >= done and _is_named_secret(found):
            quotes = re.fullmatch(r"(\\?[\"']).*\1", found["secret"], re.DOTALL)
            mark = quotes[1] if quotes else ""
            parts += [text[done:start], f"{mark}{HIDDEN}{mark}"]
            done = end
    return "".join([*parts, text[done:]])


def _is_named_secret(found: re.Match[str]) -> bool:
    name = (found["quoted"] or found["plain"] or found["set"]).lstrip("-")
    names = VARIABLE if name.isupper() else FIELD
    return bool(names.search(name)) and not _NO_SECRET.fullmatch(found["secret"])


_AUTH = ("kubeflow", "server", "auth")
"""What is shown to a server: whoever mistakes the settings there may have put the secret itself into them."""


def may_be_secret(where: Sequence[str | int]) -> bool:
    """Whether a value at that place of a config may be a credential that was put into the wrong place."""
    name = str(where[-1]) if where else ""
    return tuple(where[: len(_AUTH)]) == _AUTH or bool(SECRETIVE.search(name) or VARIABLE.search(name))
