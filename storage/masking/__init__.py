"""Replaces credentials in text and in JSON with masks that keep equal secrets recognisable as equal.

A mask reads `[masked:<kind>:<8 hex>]`. The hexadecimal digits are the start of HMAC-SHA256(key, secret), and the
kind follows from the secret itself (the form of a known token, else `credential`), never from where it was found:
so one secret has one mask in a whole project. What is found: fields by their names as whole words, tokens by their
known forms, assignments inside prose, JSON inside strings, and the fields and patterns that the project names itself.
Numbers and booleans are evidence and stay, except under a name from the project's own list, and whole numbers of eight
digits or more that one of its patterns matches as a whole.
"""

from __future__ import annotations

import hmac
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel

from storage.masking import _forms as forms
from storage.masking._keys import KEY_BYTES, MaskingKeyDamaged, MaskingKeyExists, create_key, load_key
from storage.masking._patterns import (
    PatternEngineMissing,
    Patterns,
    PatternsTooSlow,
    RedactPatternUnusable,
    check_patterns,
)
from storage.masking._records import masked_record, own_text
from storage.masking._second_look import SecondLook, SecondLookMissing, require_second_look

__all__ = [
    "KEY_BYTES",
    "MASK",
    "MaskedText",
    "Masker",
    "MaskingKeyDamaged",
    "MaskingKeyExists",
    "PatternEngineMissing",
    "Patterns",
    "PatternsTooSlow",
    "RedactPatternUnusable",
    "SecondLook",
    "SecondLookMissing",
    "check_patterns",
    "count_masks",
    "create_key",
    "has_mask",
    "load_key",
    "require_second_look",
]

MASK = re.compile(r"\[masked:[a-z_]+:[0-9a-f]{8}\]")
"""What a mask looks like. Text of this form is never masked again."""

_MAX_PASSES = 8
_COUNTER = 10_000_000
"""Numbers below this are counters, whatever a project's pattern says of digits."""

_SHORTEST = 6
"""A bare value or a `token` below this length is a word, not a credential."""


class MaskedText(str):
    """Text that has been through a `Masker`. Only this module makes it; the store takes evidence in no other form."""

    __slots__ = ()


def count_masks(text: str) -> dict[str, int]:
    """Returns how many masks of each kind `text` holds."""
    return dict(Counter(mask.group().split(":")[1] for mask in MASK.finditer(text)))


def has_mask(text: str) -> bool:
    """Returns whether `text` holds a mask."""
    return "[masked:" in text and MASK.search(text) is not None


# -- Assignments in text -----------------------------------------------------------------------------------------------

_LAST_WORDS = (
    "passwords?",
    "passwd",
    "passphrase",
    "pwd",
    "secrets?",
    "authorization",
    "cookies?",
    "keys?",
    "token",
    "email",
)
_NAME_CHARS = re.compile(r"[\w.-]{0,80}\Z")
_BARE = re.compile(r"[^\s\"'&;,)\]}<>|]+")
_BARE_HEAD = re.compile(r"[^\s\"'&;,)\]}<>|]{1,4096}")
"""Enough of a value to judge it by; a rejected one is never read to its end, so that a long text costs little."""
_REST_OF_FIELD = re.compile(r"[^\s\"'&;,)\]}<>|](?:[^\r\n\"'&;,]*[^\s\"'&;,)\]}])?")
_REST_OF_LINE = re.compile(r"[^\r\n\"']+")
_DIGIT, _LETTER = re.compile(r"\d"), re.compile(r"[^\W\d_]")
_CALL = re.compile(r"[\w.]*\(")
_HEADER_VALUE = re.compile(r"(?:[A-Za-z]+[ \t]+)?(?=\S{0,200}\d)\S{6,}")


class _Name(NamedTuple):
    """The left side of an assignment in text."""

    words: str
    raw: str
    before: str
    separator: str
    tight: bool


class Masker:
    """Masks with one project's key and by its rules. Each operation makes its own: it counts what its rules cost."""

    def __init__(
        self,
        key: bytes,
        redact_keys: Sequence[str] = (),
        redact_patterns: Sequence[str] = (),
        *,
        second_look: bool = False,
    ) -> None:
        """Takes a project's rules, which have been checked.

        Raises:
            PatternEngineMissing: There are patterns and nothing to run them.
        """
        self._hash_key = key
        self.redact_keys = tuple(redact_keys)
        self.patterns = Patterns(redact_patterns) if redact_patterns else None
        self.second_look = SecondLook(self.mask, MASK) if second_look else None
        """What looks at `text` and `value` once the rules are through with them; see also `by_rules`."""
        self._redact = frozenset(words for name in redact_keys if (words := forms.words_of(name)))
        last = "|".join([*_LAST_WORDS, *(re.escape(words.split()[-1]) for words in self._redact)])
        # A name's last word, its closing quote, then `:` or `=`; the rest of the name is read backwards from there.
        self._assignment = re.compile(
            rf"(?:{last})[0-9]{{0,3}}(\\{{0,8}}[\"'])?([ \t]{{0,4}})([:=])(?!=)[ \t]{{0,4}}", re.IGNORECASE
        )

    @property
    def own_rules(self) -> bool:
        """Whether the project has rules of its own."""
        return bool(self.redact_keys) or self.patterns is not None or self.second_look is not None

    def by_rules(self) -> Masker:
        """Returns the same without the second look, for who takes that look at many texts at once."""
        return self._with(self.patterns)

    def text(self, text: str) -> MaskedText:
        """Returns `text` with every credential masked; a text that is JSON is masked by its fields."""
        masked = self._text(text)
        return MaskedText(self.second_look.text(masked)) if self.second_look else masked

    def value(self, value: Any) -> Any:  # noqa: ANN401 - JSON
        """Returns the JSON value with every credential masked. Objects keep their keys and their order."""
        masked = self._value(value)
        return self.second_look.value(masked) if self.second_look else masked

    def record(self, record: BaseModel) -> dict[str, Any]:
        """Returns one of ATK's records or answers as JSON with every credential masked.

        The project's own rules are about what was said: ids, digests, paths, states and the names of fields stay.
        """
        return masked_record(record, self.value, self._with(None).value)

    def own_text(self, text: str) -> str:
        """Returns a text of ATK's with every credential masked; an id, a digest or a time stays."""
        return str(own_text(text, self.text, self._with(None).text))

    def _with(self, patterns: Patterns | None) -> Masker:
        if self.patterns is patterns and self.second_look is None:
            return self
        other = Masker(self._hash_key, self.redact_keys)
        other.patterns = patterns
        return other

    def _text(self, text: str) -> MaskedText:
        for _ in range(_MAX_PASSES):
            # A mask can complete a JSON text that was broken before; the next pass then sees its fields.
            masked = self._pass(text)
            if masked == text:
                break
            text = masked
        return MaskedText(text)

    def _value(self, value: Any) -> Any:  # noqa: ANN401 - JSON
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, dict):
            return self._object(value)
        if isinstance(value, list | tuple):
            return self._list(value)
        if self.patterns is not None and isinstance(value, int) and abs(value) >= _COUNTER:
            shown = str(value)
            return self.mask(shown) if self.patterns.is_match(shown) else value
        return value

    def changed(self, value: Any) -> bool:  # noqa: ANN401 - JSON
        """Returns whether masking changes the value, that is, whether it holds a credential."""
        masked = self.value(value)
        return masked is not value and bool(masked != value)

    def mask(self, secret: str) -> MaskedText:
        """Returns the mask of one secret. What is a mask or blank stays as it is."""
        if not secret.strip() or MASK.fullmatch(secret):
            return MaskedText(secret)
        kind = next((form.kind for form in forms.FORMS if form.pattern.fullmatch(secret)), "credential")
        code = hmac.new(self._hash_key, secret.encode("utf-8", "surrogatepass"), "sha256").hexdigest()[:8]
        return MaskedText(f"[masked:{kind}:{code}]")

    # -- JSON ----------------------------------------------------------------------------------------------------------

    def _object(self, value: dict[str, Any]) -> dict[str, Any]:
        named = value.get("name", value.get("key"))
        if not (isinstance(named, str) and "value" in value):
            return {(name := self._key_text(key)): self._field(name, item) for key, item in value.items()}
        # {"name": "password", "value": …} is how some exports write a field.
        return {
            (name := self._key_text(key)): self._field(named if key == "value" else name, item)
            for key, item in value.items()
        }

    def _key_text(self, key: str) -> str:
        """Returns an object's key with the tokens in it masked; a key is a name, so nothing else in it is."""
        return self._by_patterns(self._tokens(key) if len(key) >= forms.SHORTEST else key)

    def _list(self, value: Sequence[Any]) -> list[Any]:
        match value:
            case [str() as name, str() as item] if _is_pair(name, item):
                return [MaskedText(name), self._secret(item)]
        return [self._value(item) for item in value]

    def _field(self, name: str, item: Any) -> Any:  # noqa: ANN401 - JSON
        words = forms.words_of(name)
        if words in self._redact:
            return self._everything(item, numbers=True)
        if forms.is_secret_name(words) and not (isinstance(item, dict) and forms.is_schema(item)):
            return self._everything(item, numbers=False)
        if isinstance(item, str) and forms.is_token_name(words) and _is_token(item):
            return self._secret(item)
        return self._value(item)

    def _everything(self, item: Any, *, numbers: bool) -> Any:  # noqa: ANN401 - JSON
        """Masks every string below a secret field, and with `numbers` every number and boolean too."""
        if isinstance(item, str):
            return self._secret(item)
        if isinstance(item, dict):
            return {self._key_text(key): self._everything(below, numbers=numbers) for key, below in item.items()}
        if isinstance(item, list | tuple):
            return [self._everything(below, numbers=numbers) for below in item]
        return self.mask(json.dumps(item)) if numbers and item is not None else item

    def _secret(self, text: str) -> MaskedText:
        """Masks a whole text, but keeps `Bearer` before its token so that the token has its usual mask."""
        tokens = self._tokens(text)
        whole = has_mask(tokens) and forms.ONLY_SCHEME.fullmatch(MASK.sub("", tokens))
        return MaskedText(tokens) if whole else self.mask(text)

    # -- Text ----------------------------------------------------------------------------------------------------------

    def _pass(self, text: str) -> str:
        if text[:1] in '{["' or text.lstrip()[:1] in ("{", "[", '"'):
            try:
                value = json.loads(text, object_pairs_hook=_unique_keys)
                masked = self._value(value)
            except (ValueError, RecursionError):
                return self._by_patterns(self._assignments(self._tokens(text)))
            if masked == value:
                return text
            tight = '": ' not in text
            return json.dumps(masked, ensure_ascii=False, separators=(",", ":") if tight else (", ", ": "))
        return self._by_patterns(self._assignments(self._tokens(text)))

    def _by_patterns(self, text: str) -> str:
        return self.patterns.replaced(text, self.mask, MASK) if self.patterns is not None else text

    def _tokens(self, text: str) -> str:
        for form in forms.FORMS if len(text) >= forms.SHORTEST else ():
            if any(needle in text for needle in form.needles):
                text = form.pattern.sub(lambda found: self.mask(found.group()), text)
        for login in (form for needle, form in forms.LOGINS if needle in text):
            text = login.sub(lambda found: found[1] + self._unless_placeholder(found[2]), text)
        return forms.SCHEME.sub(self._scheme, text) if " " in text or "\t" in text else text

    def _scheme(self, found: re.Match[str]) -> str:
        if not forms.is_credential(found[1], found[2]):
            return found.group()
        return found.group()[: found.start(2) - found.start()] + self.mask(found[2])

    def _unless_placeholder(self, value: str) -> str:
        return value if forms.PLACEHOLDER.fullmatch(value) else self.mask(value)

    def _assignments(self, text: str) -> str:
        if ":" not in text and "=" not in text:
            return text
        parts, done = [], 0
        for found in self._assignment.finditer(text):
            if found.start() < done or not (name := self._name(text, found)):
                continue
            start, end = self._span(text, found.end(), name)
            if end > start:
                parts += [text[done:start], self._secret(text[start:end])]
                done = end
        return "".join((*parts, text[done:]))

    def _name(self, text: str, found: re.Match[str]) -> _Name | None:
        """Returns the assigned name when it is a credential's and does not lie inside a mask."""
        head = text[max(0, found.start() - 80) : found.start()]
        left = _NAME_CHARS.search(head)
        prefix = left.group() if left else ""
        before = head[: len(head) - len(prefix)]
        word = re.match(r"\w+", found.group())
        raw = prefix + (word.group() if word else "")
        words = forms.words_of(raw)
        if before.endswith("[masked:") or not (
            words in self._redact or forms.is_secret_name(words) or forms.is_token_name(words)
        ):
            return None
        return _Name(
            words, raw, before, found[3], tight=not found[2] and not text[found.end() - 1 : found.end()].isspace()
        )

    def _span(self, text: str, start: int, name: _Name) -> tuple[int, int]:
        """Returns where the assigned value lies; an empty span when it is not a credential."""
        quote = re.compile(r"\\{0,8}[\"']").match(text, start)
        if quote:
            end = _closing(text, quote.group(), quote.end())
            word = self._only_token(name.words) and not _is_token(text[quote.end() : end])
            return quote.end(), quote.end() if word else end
        for header, accepts in _HEADERS:
            if _is_header(name, header) and (line := _REST_OF_LINE.match(text, start)):
                value = line.group().rstrip()
                return (start, start + len(value)) if accepts(value) else (start, start)
        head = _BARE_HEAD.match(text, start)
        if not head or not self._is_bare_secret(head.group(), name):
            return start, start
        whole = (_REST_OF_FIELD if name.words in self._redact else _BARE).match(text, start)
        return start, (whole or head).end()

    def _only_token(self, words: str) -> bool:
        return words not in self._redact and not forms.is_secret_name(words)

    def _is_bare_secret(self, value: str, name: _Name) -> bool:
        """Tells `PASSWORD=swordfish` and `password: hunter2` from `login(password=entered)` and "the secret: tell"."""
        if name.words in self._redact:
            return not value.startswith("[")
        if forms.is_address_name(name.words):
            return "@" in value
        if len(value) < _SHORTEST or value[0] in "[({" or forms.PLACEHOLDER.fullmatch(value) or _CALL.match(value):
            return False
        if name.separator == "=" and name.tight and forms.is_secret_name(name.words):
            return name.raw.isupper() or name.before[-1:] in ("?", "&") or not re.fullmatch(r"[A-Za-z_.]+", value)
        return _has_letter_and_digit(value)


_HEADERS: tuple[tuple[str, Callable[[str], bool]], ...] = (
    ("authorization", lambda value: _HEADER_VALUE.fullmatch(value) is not None),
    ("cookie", lambda value: "=" in value and not value.startswith(("=", "{", "["))),
)


def _is_header(name: _Name, header: str) -> bool:
    """Whether a header's line begins here: at the start of a line, or after a quote as on a command line."""
    starts = not name.before or name.before[-1] in "\"'" or not name.before.rpartition("\n")[2].strip(" \t<>*|")
    return name.separator == ":" and name.words.endswith(header) and starts


def _closing(text: str, quote: str, start: int) -> int:
    """Returns where the closing quote stands that is escaped just as the opening one; the end of a text cut short."""
    at = text.find(quote, start)
    while at > start and text[at - 1] == "\\":
        at = text.find(quote, at + 1)
    return len(text) if at < 0 else at


def _is_pair(name: str, item: str) -> bool:
    """Whether a list of two texts is a header and its value."""
    return forms.is_secret_name(forms.words_of(name)) and _has_letter_and_digit(item)


def _is_token(value: str) -> bool:
    """Whether the value of a field `token` is a credential rather than a word of a language model."""
    return len(value) >= _SHORTEST and not re.search(r"\s", value)


def _has_letter_and_digit(value: str) -> bool:
    return len(value) >= _SHORTEST and bool(_DIGIT.search(value) and _LETTER.search(value))


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuses an object with one key twice: rewriting it as JSON would lose a value."""
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError
    return value
