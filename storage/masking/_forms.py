"""What a credential looks like: the names of its fields, and the forms of known tokens."""

from __future__ import annotations

import base64
import binascii
import re
from functools import lru_cache
from typing import Any, NamedTuple

_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+|[^\W\d_A-Za-z]+")

_SECRET_NAME = re.compile(
    r"(?:.* )?(?:passwords?|passwd|passphrase|(?:db|user) pwd|secrets?|authorization|cookies?|api ?keys?"
    r"|(?:private|secret|access|signing|encryption|master|account|shared|auth|subscription|license) ?key"
    r"|author ?email|client ?secret|(?:access|refresh|auth|bearer|api|id|session|csrf|xsrf|security) ?token)"
)
"""A field is a secret when its name ends in one of these: `db_password` does, `password_reset_sent` does not.

`author_email` is a person's address, which exports carry with each comment."""

_NO_SECRETS = frozenset(("override authorization", "unknown execution authorization"))
"""Names of ATK's own fields that would be one: who allowed a decision against a result is no credential."""

_TOKEN_OF_TEXT = re.compile(
    r"\b(?:total|max|min|prompt|completion|input|output|eos|bos|pad|unk|sep|cls|mask|stop|next|page|continuation|sync"
    r"|cursor|first|last|special|start|end|per)\b"
)
"""Words before `token` that make it a piece of text or a position, not a credential."""

_SCHEMA_TYPES = frozenset(("string", "number", "integer", "object", "array", "boolean", "null"))


@lru_cache(maxsize=4096)
def words_of(name: str) -> str:
    """Returns the words of a field's name, lower-cased and without a number at the end: `X-ApiKey2` is `x api key`."""
    words = [word.casefold() for word in _WORD.findall(name)]
    while len(words) > 1 and words[-1].isdigit():
        words.pop()
    return " ".join(words)


@lru_cache(maxsize=4096)
def is_secret_name(words: str) -> bool:
    return words not in _NO_SECRETS and _SECRET_NAME.fullmatch(words) is not None


def is_address_name(words: str) -> bool:
    """Whether the secret is the address of who wrote a comment."""
    return words.endswith(("author email", "authoremail"))


@lru_cache(maxsize=4096)
def is_token_name(words: str) -> bool:
    """Whether the name may be a credential's: `token`, `github_token`; not `total_token`."""
    return (words == "token" or words.endswith(" token")) and not _TOKEN_OF_TEXT.search(words)


def is_schema(value: dict[str, Any]) -> bool:
    """Whether the value describes a field rather than holding one, as a tool's parameter named `password` does."""
    kind = value.get("type")
    return (isinstance(kind, str) and kind in _SCHEMA_TYPES) or not value.keys().isdisjoint(("$ref", "anyOf", "oneOf"))


class _Form(NamedTuple):
    """A known form of token. The pattern runs only where one of the needles stands, for speed."""

    kind: str
    needles: tuple[str, ...]
    pattern: re.Pattern[str]


def _form(kind: str, needles: str, pattern: str) -> _Form:
    return _Form(kind, tuple(needles.split()), re.compile(pattern, re.ASCII | re.DOTALL))


SHORTEST = 16
"""No form below matches a text shorter than this."""

# Every repetition that can fail late is bounded: a hostile text must not make a pattern slow.
FORMS = (
    _form(
        "private_key",
        "-----BEGIN",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:.{0,16384}?-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|[A-Za-z0-9+/=\s\\]*)",
    ),
    _form("jwt", "eyJ", r"(?<![\w-])eyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]+){0,3}"),
    _form("github", "ghp_ gho_ ghu_ ghs_ ghr_", r"(?<![A-Za-z0-9])gh[pousr]_[A-Za-z0-9]{20,}"),
    _form("github", "github_pat_", r"(?<![A-Za-z0-9])github_pat_[A-Za-z0-9_]{20,}"),
    _form("gitlab", "glpat- glrt- gldt- glcbt-", r"(?<![A-Za-z0-9])gl(?:pat|rt|dt|cbt)-[\w-]{16,}"),
    _form("aws", "AKIA ASIA ABIA ACCA", r"(?<![A-Za-z0-9])A(?:KIA|SIA|BIA|CCA)[0-9A-Z]{16}(?![A-Za-z0-9])"),
    _form("slack", "xox xapp-", r"(?<![A-Za-z0-9])(?:xox[a-z]|xapp)-(?=[A-Za-z0-9-]{0,60}\d)[A-Za-z0-9-]{10,}"),
    _form("slack", "hooks.slack.com/", r"(?<=hooks\.slack\.com/)services/T\w+/B\w+/\w{10,}"),
    _form("google", "AIza ya29. GOCSPX-", r"(?<![A-Za-z0-9])(?:AIza[\w-]{30,}|ya29\.[\w-]{20,}|GOCSPX-[\w-]{20,})"),
    _form("stripe", "_live_ _test_", r"(?<![A-Za-z0-9])[sr]k_(?:live|test)_[A-Za-z0-9]{10,}"),
    _form(
        "api_key",
        "sk-",
        r"(?<![\w-])sk-(?=[\w-]{0,120}?(?=[A-Za-z]{0,60}[0-9])[A-Za-z0-9]{8})[\w-]{16,}",
    ),
    _form("api_key", "sk-", r"(?<![A-Za-z0-9])sk-(?:proj|ant|or-v1|svcacct|admin)-[\w-]{16,}"),
    _form(
        "api_key",
        "hf_ npm_ gsk_ xai- pypi- dop_v1_ shpat_ lin_api_ SG.",
        r"(?<![A-Za-z0-9])(?:(?:hf|npm|gsk)_[A-Za-z0-9]{30,}|xai-[A-Za-z0-9]{40,}|pypi-AgE[\w-]{20,}|"
        r"dop_v1_[a-f0-9]{40,}|shpat_[a-f0-9]{20,}|lin_api_[A-Za-z0-9]{30,}|SG\.[\w-]{16,}\.[\w-]{16,})",
    ),
)

SCHEME = re.compile(r"(?<![\w-])(bearer|basic)[ \t]+([A-Za-z0-9+/=._~-]{6,})", re.IGNORECASE)
_URL = re.compile(r"(://[^\s/:@\"'<>]{0,256}:)([^\s/\"'<>]{1,256})(?=@)")
_CURL = re.compile(
    r"(?<![\w-])((?:-u|--(?:proxy-)?user)(?:[ \t]+|=)?\\{0,8}['\"]?(?!\[masked:)[^\s:'\"\\]{1,128}:)([^\s'\"\\]{1,256})"
)
LOGINS = (("://", _URL), ("curl", _CURL))
"""A name and a password as they stand in a URL and after `curl -u`, and what a text has to hold for that."""

PLACEHOLDER = re.compile(r"\$\{?[A-Za-z_]\w*\}?|<[^>]*>|\{+[^{}]*\}+|\*+|x{3,}", re.IGNORECASE)
ONLY_SCHEME = re.compile(r"\s*(?:bearer|basic|token)?\s*", re.IGNORECASE)


def is_credential(scheme: str, value: str) -> bool:
    """Tells `Bearer 3f9a…` from a bearer of news and `Basic dXNlcjpwYXNz` from basic understanding."""
    if scheme.casefold() == "bearer":
        return any(char.isdigit() for char in value) or len(value) >= 32  # noqa: PLR2004 - no word is that long
    try:
        return b":" in base64.b64decode(value, validate=True)
    except binascii.Error:
        return False
