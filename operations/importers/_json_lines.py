"""Cuts a file of JSON lines into blocks that can be read apart from one another, and reads the rows of one."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from operations.importers._json_values import parse, why
from operations.importers._raw_rows import Damage, RawRow
from operations.importers._rows import MAX_LINE
from operations.importers._streams import Opened

BLOCK_BYTES = 192 * 1024
"""Bytes of whole lines that are read together; a longer line is a block of its own."""

_BLANK = re.compile(rb"\n[ \t\r\x0b\x0c]*\n")


class Block(NamedTuple):
    """Lines that stand together in a file."""

    line: int
    """The number of the first line, from 1,"""
    row: int
    """and of the first row, which is a line that is not blank."""
    data: bytes
    """The lines without the end of the last."""
    ended: bool = True
    """Whether the last line has its end."""
    too_long: bool = False
    """The block stands for one line that is longer than is read."""


def blocks(opened: Opened) -> Iterator[Block]:
    """Yields the lines of an open file in blocks.

    Raises:
        EvidenceRefused: The file cannot be unpacked; the subclass says why.
    """
    line = row = 1
    for data, ended, too_long in _pieces(opened):
        bare = data.removeprefix(codecs.BOM_UTF8) if line == 1 else data
        yield Block(line, row, bare, ended, too_long)
        count = bare.count(b"\n") + 1
        line += count
        row += count - (0 if too_long else _blank_lines(bare, count))


def _blank_lines(text: bytes, count: int) -> int:
    """Returns how many of `count` lines are blank."""
    if count == 1:  # it may be most of the memory that there is, and is not copied to be searched
        return int(not text or text.isspace())
    if _BLANK.search(b"\n%b\n" % text) is None:
        return 0
    return sum(1 for one in text.split(b"\n") if not one or one.isspace())


def _pieces(opened: Opened) -> Iterator[tuple[bytes, bool, bool]]:
    """Yields (lines, whether the last has its end, whether it stands for a line that is too long)."""
    rest: list[bytes] = []
    size = 0
    for chunk in opened.chunks():
        text = chunk
        if size > MAX_LINE - len(text) and size + _first(text) > MAX_LINE:
            rest, size = [], MAX_LINE + 1
            if b"\n" not in text:
                continue
            yield b"", True, True
            text = text[_first(text) + 1 :]
            size = 0
        end = text.rfind(b"\n")
        if end < 0:
            rest.append(text)
            size += len(text)
            continue
        rest.append(text[:end])
        whole = b"".join(rest)
        rest = [text[end + 1 :]]
        yield from ((piece, True, False) for piece in _cut(whole))
        del whole
        size = len(rest[0])
    if size:
        yield b"".join(rest), False, size > MAX_LINE


def _first(text: bytes) -> int:
    """Returns how many bytes come before the first end of a line."""
    at = text.find(b"\n")
    return at if at >= 0 else len(text)


def _cut(text: bytes) -> Iterator[bytes]:
    start = 0
    while len(text) - start > BLOCK_BYTES:
        end = text.rfind(b"\n", start, start + BLOCK_BYTES)
        if end < 0:
            end = text.find(b"\n", start + BLOCK_BYTES)
        if end < 0:
            break
        yield text[start:end]
        start = end + 1
    yield text[start:]


def rows_of_block(block: Block) -> Iterator[RawRow | Damage]:
    """Yields what the lines of a block hold; blank ones are none."""
    number = block.row - 1
    if block.too_long:
        yield Damage(block.row, block.line, f"it is longer than {MAX_LINE} bytes")
        return
    lines = block.data.split(b"\n")
    last = block.line + len(lines) - 1
    for line, raw in enumerate(lines, block.line):
        if not raw or raw.isspace():
            continue
        number += 1
        try:
            value, plain = parse(raw)
        except (ValueError, RecursionError) as error:
            cut = line == last and not block.ended
            torn = cut and isinstance(error, json.JSONDecodeError | UnicodeDecodeError)
            yield Damage(number, line, why(error), torn)
        else:
            yield RawRow(number, line, None, value, raw if plain else None, plain)
