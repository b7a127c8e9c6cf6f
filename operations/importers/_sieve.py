"""Tells in microseconds that a row of JSON holds no credential, so that only the others are masked field by field.

A row that the sieve passes is one that `Masker.value` would leave as it is; of the others it knows nothing. It cuts the
row's bytes into words, and judges each word once: exports repeat the same names and phrases in every row. Only a row
with a word that could belong to a credential is looked at with patterns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from storage.masking import Patterns
from storage.masking import _forms as forms

_WORD_BYTES = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"
_WORDS_ONLY = bytes(byte if byte in _WORD_BYTES else 32 for byte in range(256))
_HEX = b"0123456789abcdef-."
"""No name and no form of a credential is made of these alone; ids and times are, and are new in every row."""

_NAMING = re.compile(rb"passw|pwd|passphrase|secret|author|cookie|bearer|basic|key|curl")

_GAP = rb"(?:[\W_]|\\[nrtbf])*"
_END = rb"(?![a-z])"
_NAMES = re.compile(
    rb"(?:pass(?:words?|wd|phrase)|pwd|secrets?|authorization|cookies?"
    rb"|author" + _GAP + rb"email"
    rb"|(?:api|private|secret|access|signing|encryption|master|account|shared|auth|subscription|license)"
    + _GAP
    + rb"keys?)"
    + _END
    + rb"|(?:bearer|basic)(?:[ \t]|\\+t)|curl"
)
_URL = re.compile(rb"://[^\s/:@\"'<>]*:[^\s/\"'<>]+@")

# As in `storage.masking`, but without what looks at the byte before: an escape such as `\n` may stand there.
_FORMS = re.compile(
    rb"-----BEGIN|eyJ[\w-]{8}|gh[pousr]_[A-Za-z0-9]{20}|github_pat_|gl(?:pat|rt|dt|cbt)-"
    rb"|A(?:KIA|SIA|BIA|CCA)[0-9A-Z]{16}|xox[a-z]-|xapp-|hooks\.slack\.com|AIza|ya29\.|GOCSPX-|[sr]k_(?:live|test)_"
    rb"|sk-[\w-]{16}|(?:hf|npm|gsk)_[A-Za-z0-9]{30}|xai-|pypi-AgE|dop_v1_|shpat_|lin_api_|SG\."
)
_SHORTEST_FORM = 8
_LONGEST_NAME = 80
"""Bytes of a name that `storage.masking` reads; a longer one is not judged here."""

_REMEMBERED = 50_000
"""Words that are kept as harmless."""

_RECURRING = frozenset((1, 2, 3, 4, 10))
"""Bytes of an hour, a minute, a count and a date: of what is made of digits alone, these come again."""


class Sieve:
    """Made once for an import. `redact_keys` are the project's own names of secret fields, `patterns` its patterns."""

    def __init__(self, redact_keys: Sequence[str] = (), patterns: Patterns | None = None) -> None:
        self._patterns = patterns
        words = [found for name in redact_keys if (found := forms.words_of(name))]
        self._blind = any(not found.isascii() for found in words)
        own = [_GAP.join(re.escape(word.encode()) for word in found.split()) for found in words if found.isascii()]
        self._own = re.compile(b"|".join(own)) if own else None
        self._harmless: set[bytes] = set()

    def clean(self, raw: bytes) -> bool:
        """Returns whether the row, as JSON in UTF-8, surely holds no credential."""
        harmless, suspect = self._harmless, False
        unknown = [word for word in raw.translate(_WORDS_ONLY).split() if word not in harmless]
        for word in unknown:
            if not word.translate(None, _HEX):
                if len(word) in _RECURRING and len(harmless) < _REMEMBERED // 2:
                    harmless.add(word)
                continue
            if self._is_harmless(word):
                if len(harmless) < _REMEMBERED:
                    harmless.add(word)
            elif self._is_form(word):
                return False
            else:
                suspect = True
        if self._blind or b"\\u" in raw or b"\\/" in raw:
            return False
        if b"@" in raw and _URL.search(raw):
            return False
        if self._patterns is not None and self._may_match(self._patterns, raw):
            return False
        low = raw.lower() if suspect or self._own is not None else b""
        return not (suspect and _NAMES.search(low)) and not (self._own is not None and self._own.search(low))

    @staticmethod
    def _may_match(patterns: Patterns, raw: bytes) -> bool:
        """Returns whether a pattern may match a text of the row, whatever its JSON hides."""
        if patterns.anchored:
            return True
        # A match within a text is one within the row, as long as each character stands there for itself.
        plain = raw.replace(b'\\"', b'"')
        return b"\\" in plain or patterns.found_in(plain)

    def _is_harmless(self, word: bytes) -> bool:
        low = word.lower()
        return (
            _NAMING.search(low) is None
            and (b"token" not in low or _no_token(word, low))
            and (len(word) < _SHORTEST_FORM or _FORMS.search(word) is None)
        )

    @staticmethod
    def _is_form(word: bytes) -> bool:
        """Returns whether the word alone is reason enough to look at every field."""
        low = word.lower()
        return (b"token" in low and not _no_token(word, low)) or _FORMS.search(word) is not None


def _no_token(word: bytes, low: bytes) -> bool:
    """Returns whether every `token` in the word ends a name such as `total_token`, or no name."""
    at = low.find(b"token")
    while at >= 0:
        if not low[at + 5 : at + 6].isalpha():
            words = forms.words_of(f"{word[:at].decode('ascii')}Token")
            if not 0 < at < _LONGEST_NAME or forms.is_token_name(words) or forms.is_secret_name(words):
                return False
        at = low.find(b"token", at + 5)
    return True
