"""Takes a JSON document apart while it is read: the items of its arrays one by one, last what stands around them."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from operations.importers._json_values import NotFinite, finite, integer, unique
from operations.importers._rows import MAX_DEPTH, MAX_LINE
from operations.importers._rows import _depth as depth_of

STREAMED = frozenset(("data", "traces", "observations", "scores"))
"""Members of a document whose items are rows of their own."""

WRAPPED = frozenset(("data", "results"))
"""Members that make the document around them no row; `results` only where objects stand in it."""

_SPACE = re.compile(r"[ \t\r\n]*")


class JsonBroken(Exception):
    """The document ends early, or something in it is not JSON."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def stream_rows(chunks: Iterable[bytes]) -> Iterator[tuple[str, Any, dict[str, Any] | None]]:
    """Yields (JSON pointer, value, what stands around it so far).

    Values are the items of the top array, or those of an object's arrays of rows and then the object itself with those
    arrays emptied. An object that holds `data`, or objects in `results`, is a page and no row.

    Raises:
        JsonBroken: The document cannot be read on.
    """
    text = _Text(chunks)
    if not text.peek():
        return
    match text.peek():
        case "[":
            for place, value in enumerate(text.items()):
                yield f"/{place}", value, None
        case "{":
            yield from _object(text)
        case _:
            yield "", text.value(), None
    if text.peek():
        raise JsonBroken(
            f"there is more after the end of the document, at character {text.place()}; a file with one object to a "
            "line is called .jsonl"
        )


def _object(text: _Text) -> Iterator[tuple[str, Any, dict[str, Any] | None]]:
    around: dict[str, Any] = {}
    rows = False
    emptied: set[str] = set()
    for name in text.names():
        if name in around:
            raise JsonBroken(f"the document names {name[:80]!r} twice")
        if (name in STREAMED and text.peek() == "[") or (name in WRAPPED and text.begins_rows()):
            around[name] = []
            emptied.add(name)
            for place, value in enumerate(text.items()):
                rows = True
                yield f"/{name}/{place}", value, around
        else:
            around[name] = text.value()
    if WRAPPED.isdisjoint(emptied) or not rows:
        yield "", around, None


class _Text:
    """The document's text from where it is read on; never more of it than the value at hand."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._decode = codecs.getincrementaldecoder("utf-8-sig")()
        self._text = ""
        self._at = 0
        self._dropped = 0
        self._ended = False
        self._decoder = json.JSONDecoder(
            object_pairs_hook=unique, parse_constant=NotFinite, parse_float=finite, parse_int=integer
        )

    def place(self) -> int:
        """The place in the document, in characters from 0."""
        return self._dropped + self._at

    @property
    def ended(self) -> bool:
        """Whether the file has no more than what was read."""
        return self._ended

    def peek(self) -> str:
        """Returns the next character that is no space; nothing at the end."""
        while True:
            found = _SPACE.match(self._text, self._at)
            self._at = found.end() if found else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def begins_rows(self) -> bool:
        """Whether an array begins here, and an object in it."""
        if self.peek() != "[":
            return False
        while True:
            found = _SPACE.match(self._text, self._at + 1)
            place = found.end() if found else self._at + 1
            if place < len(self._text) or not self._more():
                return self._text[place : place + 1] == "{"

    def take(self, expected: str) -> None:
        """Reads one of the characters in `expected`."""
        if (found := self.peek()) not in expected or not found:
            shown = f"{found!r}" if found else "the end of the file"
            raise JsonBroken(f"expected {' or '.join(expected)} at character {self.place()}, and found {shown}")
        self._at += 1

    def items(self) -> Iterator[Any]:
        """Yields the items of the array that begins here."""
        self.take("[")
        if self.peek() == "]":
            self.take("]")
            return
        while True:
            yield self.value()
            if self.peek() == "]":
                self.take("]")
                return
            self.take(",]")

    def names(self) -> Iterator[str]:
        """Yields the names of the object that begins here; its reader reads each one's value."""
        self.take("{")
        if self.peek() == "}":
            self.take("}")
            return
        while True:
            if self.peek() != '"':
                self.take('"')
            name = str(self.value())
            self.take(":")
            yield name
            if self.peek() == "}":
                self.take("}")
                return
            self.take(",}")

    def value(self) -> Any:  # noqa: ANN401 - JSON
        """Reads one value."""
        self.peek()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if self._is_cut_off(error) and self._grow():
                    continue
                raise JsonBroken(f"{error.msg} at character {self._dropped + error.pos}") from None
            except RecursionError:
                raise JsonBroken(f"it nests deeper than {MAX_DEPTH}") from None
            except ValueError as error:
                raise JsonBroken(str(error)) from None
            if end == len(self._text) and self._more():
                continue  # a number may go on in the next piece
            self._check_depth(end)
            self._at = end
            return value

    def _is_cut_off(self, error: json.JSONDecodeError) -> bool:
        """Whether the text may only end too early: elsewhere it is wrong whatever comes."""
        return error.pos >= len(self._text) - 16 or error.msg.startswith("Unterminated")

    def _check_depth(self, end: int) -> None:
        opens = self._text.count("[", self._at, end) + self._text.count("{", self._at, end)
        if opens > MAX_DEPTH and depth_of(self._text[self._at : end]) > MAX_DEPTH:
            raise JsonBroken(f"the value at character {self.place()} nests deeper than {MAX_DEPTH}")

    def _grow(self) -> bool:
        """Reads until the value at hand has twice the text, so that a long one is not tried too often."""
        wanted = 2 * (len(self._text) - self._at)
        grown = False
        while len(self._text) - self._at < max(wanted, 1) and self._more():
            grown = True
        return grown

    def _more(self) -> bool:
        if self._ended:
            return False
        if len(self._text) - self._at > MAX_LINE:
            raise JsonBroken(f"the value at character {self.place()} is longer than {MAX_LINE} characters")
        try:
            chunk = next(self._chunks, None)
            self._ended = chunk is None
            more = self._decode.decode(chunk or b"", final=self._ended)
        except UnicodeDecodeError as error:
            raise JsonBroken(f"it is not UTF-8 ({error.reason})") from None
        self._dropped += self._at
        self._text = self._text[self._at :] + more
        self._at = 0
        return bool(more) or not self._ended
