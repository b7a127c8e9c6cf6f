"""Reads texts as they may be compared: letters and digits in one form, with what was encoded or marked up in them.

Escapes of JSON, HTML and URLs, markup, base64 and hexadecimal digits are read; what is compressed or enciphered is not.
"""

from __future__ import annotations

import base64
import html
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

_DEEPEST = 50
"""Levels of a JSON value that are looked into; no input of a Case is nested as deeply by anybody who means it."""

_ENCODED = 3
"""How often a text that was encoded is looked into for another one."""

_ESCAPE = re.compile(r"(?<!\\)\\+(?:u([0-9a-fA-F]{4})|[nrtbf])")
_PERCENT = re.compile(r"%[0-9a-fA-F]{2}")
_MARKUP = re.compile(r"</?[a-zA-Z][^<>]{0,200}>|<!--.{0,200}?-->", re.DOTALL)
_HEX = re.compile(r"(?<![0-9a-fA-F])(?:[0-9a-fA-F]{2}[\s:]?){24,}(?![0-9a-fA-F])")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{30,}(?:\s{1,2}[A-Za-z0-9+/_-]{4,})*")
_SIGNS = str.maketrans("-_", "+/")
_NO_LETTERS = re.compile(r"[^0-9a-z]+")
_ALIKE = str.maketrans("авеіјкмнорсѕтухһԁԛԝαικνορτυχ", "abeijkmhopcstyxhdqwaiknoptux")
"""Cyrillic and Greek letters that look like Latin ones, small ones for capitals too, since case does not count."""
_DIGIT = re.compile(r"[^\W\D0-9]")
_QUANTUM = 4


def plain_text(text: str) -> str:
    """Returns the letters and digits of a text in one case and one form of each; one without any as it is.

    Accents do not count, nor which script a digit is of, or a letter that looks alike in several. What JSON, HTML or a
    URL write for a character stands for it, since an input is often put into a prompt or a call in that way.
    """
    plain = text
    if "\\" in plain:
        plain = _ESCAPE.sub(_unescaped, plain).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if "&" in plain:
        plain = html.unescape(plain)
    if "%" in plain and _PERCENT.search(plain):
        plain = unquote(plain)
    if plain.isascii():
        return _NO_LETTERS.sub("", plain.lower()) or text.strip()
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", plain).casefold())
    letters = unicodedata.normalize("NFC", "".join(filter(str.isalnum, folded))).translate(_ALIKE)
    return _DIGIT.sub(lambda found: str(unicodedata.decimal(found[0])), letters) or text.strip()


def forms_of(value: Any) -> list[str]:  # noqa: ANN401 - JSON
    """Returns the plain forms of a value: as a whole, of each of its texts, and of what is hidden in those.

    A text is read without its markup as well, and what is encoded in it is decoded.
    """
    texts = list(texts_of(value))
    plains = [plain_text(text) for text in texts]
    return [_joined(plains), *plains, *(plain for text in texts for plain in _hidden_in(text, 0))]


def form_of(value: Any) -> str:  # noqa: ANN401 - JSON
    """Returns what two inputs share that ask the same, however they are written; nothing for one that asks nothing."""
    return _joined(leaves_of(value))


def leaves_of(value: Any) -> list[str]:  # noqa: ANN401 - JSON
    """Returns the plain texts in a value, in order, without empty ones."""
    return [plain for leaf in texts_of(value) if (plain := plain_text(leaf))]


def texts_of(value: Any, depth: int = 0) -> Iterator[str]:  # noqa: ANN401 - JSON
    """Yields the texts and numbers of a value in order; of a text that is JSON, what it holds."""
    if isinstance(value, str):
        inner = _opened(value) if depth < _DEEPEST else None
        if inner is None:
            yield value
        else:
            yield from texts_of(inner, depth + 1)
    elif isinstance(value, Mapping) and depth < _DEEPEST:
        for name in sorted(value, key=str):
            yield from texts_of(value[name], depth + 1)
    elif isinstance(value, list | tuple) and depth < _DEEPEST:
        for item in value:
            yield from texts_of(item, depth + 1)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def names_of(value: Any, depth: int = 0) -> Iterator[str]:  # noqa: ANN401 - JSON
    """Yields the names of the fields in a value; of a text that is JSON, those in what it holds."""
    if depth >= _DEEPEST:
        return
    if isinstance(value, str):
        inner = _opened(value)
        if inner is not None:
            yield from names_of(inner, depth + 1)
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield str(name)
            yield from names_of(item, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from names_of(item, depth + 1)


def _joined(plains: Iterable[str]) -> str:
    """Returns plain texts as one. A text without letters counts only where there is no other."""
    known = [plain for plain in plains if plain]
    return "".join([plain for plain in known if plain[0].isalnum()] or known)


def _hidden_in(text: str, depth: int) -> Iterator[str]:
    if "<" in text and (bare := _MARKUP.sub(" ", text)) != text:
        yield plain_text(bare)
    for inner in _decoded(text) if depth < _ENCODED else ():
        for leaf in texts_of(inner):
            yield plain_text(leaf)
            yield from _hidden_in(leaf, depth + 1)


def _opened(text: str) -> Any:  # noqa: ANN401 - JSON
    if text.lstrip()[:1] not in ("{", "[", '"'):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _unescaped(found: re.Match[str]) -> str:
    return chr(int(found[1], 16)) if found[1] else " "


def _decoded(text: str) -> Iterator[str]:
    """Yields the texts that runs of hexadecimal digits or of base64 stand for; other bytes are no texts."""
    for run in _HEX.finditer(text):
        yield from _as_text(bytes.fromhex(re.sub(r"[\s:]", "", run[0])))
    for run in _BASE64.finditer(text):
        signs = re.sub(r"\s", "", run[0]).translate(_SIGNS)
        for start in range(_QUANTUM):  # what stands before it can be of the same signs, as in a URL
            whole = signs[start:]
            if len(whole) % _QUANTUM != 1:
                padded = whole + "=" * (-len(whole) % _QUANTUM)
                yield from _as_text(base64.b64decode(padded))


def _as_text(data: bytes) -> Iterator[str]:
    for coding in ("utf-8", "utf-16-le") if b"\0" in data else ("utf-8",):
        try:
            text = data.decode(coding)
        except UnicodeDecodeError:
            continue
        if not any(unicodedata.category(c) in ("Cc", "Cn") and not c.isspace() for c in text[:200]):
            yield text
