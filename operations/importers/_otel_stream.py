"""Reads the spans of an OTLP document one by one, however many stand in it, and of several documents in a file.

The file exporter of the OpenTelemetry collector writes a document to each line, into files that end in `.json`;
Python's console exporter writes one indented object after another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from operations.importers._json_stream import JsonBroken
from operations.importers._json_stream import _Text as Text
from operations.importers._otel_rows import ITEMS, METRICS, RESOURCES, SCOPES, context_of, flat, otlp

UNREAD = "unread"
"""The one member of what stands for something that holds no spans, such as metrics."""


class SpanStream:
    """The spans and log records of a file of JSON. Iterate once."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._text = Text(chunks)
        self.late = 0
        """Groups of spans whose resource or scope came after them, and is not known of them."""
        self.documents = 0
        """Documents that were read to their end."""

    @property
    def ended(self) -> bool:
        """Whether the file had no more to read."""
        return self._text.ended

    def __iter__(self) -> Iterator[tuple[str, dict[str, Any] | None]]:
        """Yields (JSON pointer, span); None stands for what is no object.

        Raises:
            JsonBroken: The file cannot be read on.
        """
        text = self._text
        while (found := text.peek()) != "":
            base = f"/{self.documents}" if self.documents else ""
            if found == "[":
                for number in _each(text):
                    yield from self._one(f"{base}/{number}")
            else:
                yield from self._one(base)
            self.documents += 1

    def _one(self, at: str) -> Iterator[tuple[str, dict[str, Any] | None]]:
        text = self._text
        if text.peek() != "{":
            text.value()
            yield at, None
            return
        members: dict[str, Any] = {}
        document = False
        for name in _names(text):
            if name in RESOURCES and text.peek() == "[":
                document = True
                for number in _each(text):
                    yield from self._resource(f"{at}/{name}/{number}")
            elif name == "spans" and text.peek() == "[":
                document = True
                for number in _each(text):
                    value = text.value()
                    yield f"{at}/spans/{number}", flat(value) if isinstance(value, dict) else None
            else:
                members[name] = text.value()
        if unread := METRICS.intersection(members):
            yield at, {UNREAD: min(unread)}
        elif not document:
            yield at, flat(members)

    def _resource(self, at: str) -> Iterator[tuple[str, dict[str, Any] | None]]:
        text = self._text
        if text.peek() != "{":
            text.value()
            yield at, None
            return
        resource: Any = None
        some = False
        for name in _names(text):
            if name in SCOPES and text.peek() == "[":
                for number in _each(text):
                    some = True
                    yield from self._scope(resource, f"{at}/{name}/{number}")
            elif name == "resource":
                resource = text.value()
                self.late += some
            else:
                text.value()

    def _scope(self, resource: Any, at: str) -> Iterator[tuple[str, dict[str, Any] | None]]:  # noqa: ANN401 - JSON
        text = self._text
        if text.peek() != "{":
            text.value()
            yield at, None
            return
        group: dict[str, Any] = {}
        some = False
        for name in _names(text):
            if name in ITEMS and text.peek() == "[":
                around = context_of(resource, group)
                for number in _each(text):
                    some = True
                    value = text.value()
                    made = otlp(value, *around, log=name != "spans") if isinstance(value, dict) else None
                    yield f"{at}/{name}/{number}", made
            else:
                group[name] = text.value()
                self.late += some and name in ("scope", "instrumentationLibrary")


def _each(text: Text) -> Iterator[int]:
    """Counts the items of the array that begins here; its reader reads each one's value."""
    text.take("[")
    if text.peek() == "]":
        text.take("]")
        return
    number = 0
    while True:
        yield number
        number += 1
        if text.peek() == "]":
            text.take("]")
            return
        text.take(",]")


def _names(text: Text) -> Iterator[str]:
    """Yields the names of the object that begins here, and refuses one that stands there twice."""
    seen: set[str] = set()
    for name in text.names():
        if name in seen:
            raise JsonBroken(f"an object names {name[:80]!r} twice")
        seen.add(name)
        yield name
