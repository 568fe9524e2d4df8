"""Patterns of credentials, and how to redact them.

The config's rules, the compiled file, the image, shared pages and all messages use this one table. A value that is a
URL is read as a whole, so that nothing within its password can hide it. Within a message, a URL ends where it seems to,
and the text that follows is left as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import unquote

MASK = "***"
URL_START = re.compile(r"[a-z][a-z0-9+.-]+(?::[/\\]+|[/\\]{2,})", re.IGNORECASE)
"""Also matches one slash, backslashes, or a missing colon. A single letter before the colon is a Windows drive."""
_USER_AND_PASSWORD = re.compile(r"([^:/@\\]*:).+(?=@)", re.DOTALL)
"""Matches at the start of the text after the slashes."""
_USER_WITH_SLASH = re.compile(r"([^@]*?:)[^/\\@]+(?=@)(?!@sha256:[0-9a-f]{64})")
"""An image's digest may follow its tag: `docker://registry.example/image:tag@sha256:...`."""

_BEFORE_HOST = re.compile(
    r"(://[^:/\s@]*:)"
    r"(?:[^\s/?#\"'<>\\]*|[^\s\"'<>\\]*|[^@\s]+)"  # up to the last at sign before the path, else up to any
    r"(?=@)"
)
"""URL parsers disagree on an at sign or a slash within a password; each reading is redacted."""
_WITH_SPACES = re.compile(
    r"(://[^:/\s@\"'<>\\\[]*:)(?=\S)(?!\d{1,5}(?![\w%-]))"  # not a port, and not a message after a bucket's name
    r"(?:(?!://)[^\n\"'<>\\@])+(?=@)"
)
_BELOW_A_SLASH = re.compile(r"(://[^\s@\"'<>]{1,200}?:)[^\s/@\"'<>\\]{1,200}(?=@)(?!@sha256:[0-9a-f]{64})")
_ENCODED = re.compile(r"(://[^\s/@?#\"'<>]*?%(?:25)*3a)[^\s/@?#\"'<>]+?(?=%(?:25)*40)", re.IGNORECASE)
_WITHOUT_SCHEME = re.compile(
    r"((?:(?<![\w:/\\])//|%(?:25)*2f%(?:25)*2f)[^\s:/@?#\"'<>\\]*(?::|%(?:25)*3a))"
    r"[^\s/@\"'<>\\]+?(?=@|%(?:25)*40)",
    re.IGNORECASE,
)
"""Matches `//user:password@host`, also with escaped slashes, as in a URL that is escaped as a whole."""
_SETTING = re.compile(
    r"([?&;][^=&;\s\"'<>\\]*"
    r"(?:pass(?!file)|pwd|secret|token|signature|credential|(?:api|access|account)[_-]?key|(?<![^?&;_-])sig(?==|%3d))"
    r"[^=&;\s\"'<>\\]*(?:=|%3d)|(?:pwd|password)%3d)[^&;\s\"'<>\\]+?(?=:?(?:[&;\s\"'<>\\]|$))",
    re.IGNORECASE,
)
"""A colon at the end is a message's: `...?sig=abc: not found`."""


def has_password(url: str) -> bool:
    return redact_url(url) != url


def redact_urls(text: str) -> str:
    """Replace each password in a URL within the text by `***`."""
    for password in (_BEFORE_HOST, _WITH_SPACES, _BELOW_A_SLASH, _ENCODED, _WITHOUT_SCHEME, _SETTING):
        text = password.sub(rf"\1{MASK}", text)
    return text


def redact_url(url: str) -> str:
    """Redact a text that is one URL, whatever characters its user, password and host hold, escaped ones included."""
    start = URL_START.match(url.lstrip())
    if not start:
        return redact_urls(url)
    rest = url.lstrip()[start.end() :]
    host = re.split(r"[/\\?#]", rest, maxsplit=1)[0]
    for spelled in (rest, unquote(unquote(host)) + rest[len(host) :]):
        for login in (_USER_AND_PASSWORD, _USER_WITH_SLASH):
            if found := login.match(spelled):
                return redact_urls(f"{start[0]}{found[1]}{MASK}{spelled[found.end() :]}")
    return redact_urls(url)


def redact_trailing_url(text: str) -> str:
    """Redact a text that ends with a URL, such as an option and its value."""
    start = URL_START.search(text)
    return text[: start.start()] + redact_url(text[start.start() :]) if start else redact_urls(text)


_HARMLESS_KEYS = (
    "cache|cluster|clustering|column|composite|dedup|example|feature|foreign|group|hash|index|join|label|lookup|"
    "natural|object|order|partition|primary|public|range|route|routing|row|shard|sort|split|text|unique"
)
SUSPICIOUS_VARIABLE = re.compile(
    r"PASSW|PASSPHRASE|(?:^|_)PASS$|_PWD$|SECRET|TOKEN|CREDENTIAL|(?:PRIVATE|ACCESS|API)_?KEY"
    r"|(?:^|_)(?:AUTHORIZATION|COOKIE)$"
    rf"|(?<![A-Z0-9])(?!(?:{_HARMLESS_KEYS})_)[A-Z0-9]+_KEY$",
    re.IGNORECASE,
)
"""Environment variables that hold secrets or may: `STRIPE_KEY`, `TOKENIZER`; not `SORT_KEY`."""
SECRET_FIELD = re.compile(
    r"(?:^|[_.-])(?:passphrase|pwd|secret|(?:api|access|account|storage|private|secret|signing|encryption)[_-]?key"
    r"|credentials?)$"
    r"|passw(?:or)?d$|^pass$|(?:^|[_.-])(?:access|auth|api|bearer|id|refresh|session|security)[_-]?token$|^token$"
    r"|^(?:proxy[_-])?authorization$|^(?:(?:set|session)[_-])?cookie$",
    re.IGNORECASE,
)
"""Settings that certainly hold a secret: `db_password`, `api_key`; not `pad_token`, nor `max_tokens`."""
SECRET_VARIABLE = re.compile(rf"{SECRET_FIELD.pattern}|_PASS$|_TOKEN$", re.IGNORECASE)
"""Environment variables that certainly hold a secret."""
REDACTED_FIELD = re.compile(rf"{SECRET_VARIABLE.pattern}|[.-](?:pass|token)$|[_-]key[_-]?id$", re.IGNORECASE)
"""Settings that are redacted because they may hold a secret; redaction is stricter than refusal."""

KEY_PATTERNS = {
    "a private key": re.compile(
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:.*?-----END [A-Z ]*PRIVATE KEY-----|[\w+/=\s\\:,.-]*)", re.DOTALL
    ),
    "an AWS access key": re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    "a Google API key": re.compile(r"\bAIza[0-9A-Za-z_-]{35}"),
    "a Google token": re.compile(r"\bya29\.[0-9A-Za-z_-]{20,}"),
    "an Azure key": re.compile(r"(?:(?<=\bAccountKey=)|(?<=\bSharedAccessKey=))[0-9A-Za-z+/=]{8,}", re.IGNORECASE),
    "a GitHub token": re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[0-9A-Za-z_]{30,})"),
    "a GitLab token": re.compile(r"\bglpat-[0-9A-Za-z_-]{20,}"),
    "a PyPI token": re.compile(r"\bpypi-AgE[0-9A-Za-z_-]{16,}"),
    "an npm token": re.compile(r"\bnpm_[0-9A-Za-z]{30,}"),
    "a DigitalOcean token": re.compile(r"\bdo[opr]_v1_[0-9a-f]{40,}"),
    "a Hugging Face token": re.compile(r"\bhf_[0-9A-Za-z]{30,}"),
    "a Stripe key": re.compile(r"\b[sr]k_(?:live|test)_[0-9A-Za-z]{16,}"),
    "a secret key": re.compile(r"\bsk-(?=[A-Za-z_-]*[0-9])[0-9A-Za-z_-]{20,}"),
    "a Slack token": re.compile(r"\bxox[abeprs]-[0-9A-Za-z-]{10,}|(?<=\bhooks\.slack\.com/services/)T\w+/B\w+/\w+"),
    "a JSON web token": re.compile(r"\beyJ[0-9A-Za-z_-]{10,}\.[0-9A-Za-z_-]{10,}\.[0-9A-Za-z_-]*"),
    "a URL with a token": re.compile(r"(?:(?<=http://)|(?<=https://))(?=[^/@]*[0-9])[0-9A-Za-z_.~-]{16,}(?=@)"),
    "a signed URL": re.compile(
        r"(?:(?<=[?&]sig=)|(?<=[?&]X-Amz-Signature=)|(?<=[?&]X-Goog-Signature=))[0-9A-Za-z%+/=_-]+"
    ),
}
"""Patterns of secrets that are recognizable anywhere; the whole match is the secret."""
_BEARER = re.compile(r"(?<=\bBearer )[0-9A-Za-z._~+/-]{16,}=*")
CERTAIN_PATTERNS = {
    "a URL with a password": re.compile(
        r"[a-z][a-z0-9+.-]*://[^\s/\"'@:\\]*:(?P<secret>[^\s/\"'@\\]+)@"
        r"|://\S*[?&;](?:password|passwd|pwd|secret|sig|token|access_token|api_?key)=[^&\s\"'\\]",
        re.IGNORECASE,
    ),
    **KEY_PATTERNS,
}
"""These, and passwords in URLs, which need their surroundings to be recognized."""
CREDENTIAL_PATTERNS = {
    **CERTAIN_PATTERNS,
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
    "a header's value": re.compile(
        r"^(?:Bearer (?P<secret>[^\s$<{*]{6,})"
        r"|Basic (?P<listed>(?=\S*(?:[a-z][A-Z]|=$))(?:[0-9A-Za-z+/]{4})+(?:[0-9A-Za-z+/]{2}==|[0-9A-Za-z+/]{3}=)?))$",
        re.MULTILINE,
    ),
    "a connection string with a password": re.compile(
        r"^(?=.*\b(?:host|hostaddr|server|user|uid|user id|dbname|database)\s*=)"
        r".*(?<![\w-])(?:password|passwd|pwd)\s*=\s*(?P<secret>'(?:[^'\\\n]|\\.)*'|[^\s;$<{*][^\s;]*).*$",
        re.IGNORECASE | re.MULTILINE,
    ),
}
"""Those beyond CERTAIN_PATTERNS also match code that takes a credential from the environment, such as
`connect(password=PASSWORD)`."""

_WELL_KNOWN = ("minio123", "minioadmin")
_RANDOM_LENGTH = 16
_WORDS_AND_NUMBERS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
"""The words and numbers of a name such as `rootAccessKey2`."""
_NUMBERS, _LETTERS = 4, 3


def looks_like_secret(text: str) -> bool:
    """Whether a text looks like a secret and not like the name of one.

    It matches the pattern of a key, or looks random: it holds many numbers, or a long word with many changes of case.
    """
    plain = re.sub(r"[^A-Za-z0-9]", "", text)
    longest = max(re.findall(r"[A-Za-z0-9]+", text), key=len, default="")
    random = len(plain) >= _RANDOM_LENGTH and len(re.findall(r"[0-9]+", plain)) >= _NUMBERS
    random |= len(longest) >= _RANDOM_LENGTH and len(_WORDS_AND_NUMBERS.findall(longest)) * _LETTERS > len(longest)
    return random or text in _WELL_KNOWN or any(shape.search(text) for shape in KEY_PATTERNS.values())


_NAMED_VALUE = re.compile(
    r"(?:(?<![\w./-])(?<!column [\"'])(?P<quoted>[\w-]{1,64})\\?[\"']\s*[:=]\s*(?=\\?[\"']|\d{4})"
    r"|(?<![\w./-])(?P<plain>[\w-]{1,64})\s*[:=]\s*(?=[\"'])"
    r"|(?<![\w./])(?P<set>[\w.-]{1,64})=(?=[^\s,;&\"'$<{*]))"
    r"(?=(?P<secret>\\\"[^\"\n]*(?:\")?|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|[^\s,;&\"']+))",
)
"""A named value as Python, JSON, shells and connection strings write it; not `column 'token': found 3`."""
_NOT_SECRET = re.compile(r"[\"']?(?:none|null|true|false|string|bytes|int|float|\*+|)[\"']?[)\]}]*", re.IGNORECASE)
_MESSAGE_PATTERNS = (
    *(shape for what, shape in CREDENTIAL_PATTERNS.items() if what != "a URL with a password"),
    _BEARER,
)
"""All patterns but passwords in URLs, which `redact_urls` handles."""


def redact(text: str) -> str:
    """Replace every credential in a text by `***`.

    These are passwords in URLs, keys and tokens, credentials in headers, connection strings and options, and values
    under names such as `password`.
    """
    text = redact_urls(text)
    for shape in _MESSAGE_PATTERNS:
        text = shape.sub(_mask, text)
    return _redact_named(text)


def redact_value(value: str) -> str:
    """Redact a text that may be one URL, including white space within its password."""
    return redact(redact_url(value))


def _mask(found: re.Match[str]) -> str:
    """The match, with `***` in place of the secret part."""
    group = next((name for name, secret in found.groupdict().items() if secret), 0)
    start, end = found.start(group) - found.start(), found.end(group) - found.start()
    return f"{found[0][:start]}{MASK}{found[0][end:]}"


def _redact_named(text: str) -> str:
    """Redact the values under secret names, also inside other values: `{"error": "password=..."}`."""
    parts, done = list[str](), 0
    for found in _NAMED_VALUE.finditer(text):
        start, end = found.span("secret")
        if start >= done and _is_named_secret(found):
            quotes = re.fullmatch(r"(\\?[\"']).*\1", found["secret"], re.DOTALL)
            mark = quotes[1] if quotes else ""
            parts += [text[done:start], f"{mark}{MASK}{mark}"]
            done = end
    return "".join([*parts, text[done:]])


def _is_named_secret(found: re.Match[str]) -> bool:
    name = (found["quoted"] or found["plain"] or found["set"]).lstrip("-")
    names = SECRET_VARIABLE if name.isupper() else SECRET_FIELD
    return bool(names.search(name)) and not _NOT_SECRET.fullmatch(found["secret"])


_AUTH = ("kubeflow", "server", "auth")
"""The setting with credentials for a server; a user may have put the secret itself there by mistake."""


def may_be_secret(where: Sequence[str | int]) -> bool:
    """Whether the value of this setting may be a credential that was put into the config by mistake."""
    name = str(where[-1]) if where else ""
    return tuple(where[: len(_AUTH)]) == _AUTH or bool(SUSPICIOUS_VARIABLE.search(name) or SECRET_VARIABLE.search(name))
