r"""Framed lines: the form of the operation journal and of a run's `attempts.log`.

One frame is `LLLLLLLL CCCCCCCC {json}\n`: the body's length and CRC-32 in hexadecimal, then the body. The
body's `prev` is the SHA-256 of the body before it, so a frame that was taken out, put in or changed shows.
A file of frames is valid at every frame border, which is what makes one append a commit point.
"""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

HEADER = 18
"""Bytes before a body: two hexadecimal numbers of eight digits, each followed by a space."""

ORIGIN = "0" * 64
"""The `prev` of a file's first frame."""

MAX_BODY = 256 * 1024 * 1024
"""A length beyond this is damage, not data: nothing in ATK writes such a frame."""

_HEADER = re.compile(rb"[0-9a-f]{8} [0-9a-f]{8} ")


@dataclass(frozen=True)
class Frame:
    """One frame as it was read: its body, the body's digest, and where it lies in the file."""

    body: dict[str, Any]
    digest: str
    start: int
    end: int


@dataclass(frozen=True)
class Tail:
    """How a file of frames ends.

    `clean`: at a frame border. `torn`: with the beginning of a frame, as an interrupted append leaves it.
    `damaged`: a whole frame is wrong; what follows cannot be trusted and nothing may be cut.
    """

    state: Literal["clean", "torn", "damaged"]
    offset: int
    reason: str = ""


def canonical(value: object) -> bytes:
    """Returns `value` as canonical JSON: sorted keys, no spaces, ASCII. Digests are taken over this form.

    Raises:
        ValueError: A number is NaN or infinite.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode("ascii")


class FrameTooLarge(ValueError):
    """A body is longer than a reader takes for one."""


def digest(data: bytes) -> str:
    """Returns the SHA-256 of `data` in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def encode(body: dict[str, Any]) -> tuple[bytes, str]:
    """Returns `body` as one frame, and the digest that the next frame names as `prev`.

    Raises:
        FrameTooLarge: The body is larger than a reader would take.
        ValueError: It holds NaN or infinity.
    """
    raw = canonical(body)
    if len(raw) > MAX_BODY:
        raise FrameTooLarge(f"a frame of {len(raw)} bytes")
    return b"%08x %08x %s\n" % (len(raw), zlib.crc32(raw), raw), digest(raw)


def scan(data: bytes, *, offset: int = 0, prev: str | None = ORIGIN) -> Iterator[Frame | Tail]:
    """Yields the frames of `data`, then one `Tail` that says how it ends.

    `offset` is where `data` begins in its file and `prev` the digest of the frame before it; None where that frame is
    in another file that nobody looks into now.
    """
    at = 0
    while at < len(data):
        found = _frame(data, at, offset, prev)
        yield found
        if isinstance(found, Tail):
            return
        prev, at = found.digest, found.end - offset
    yield Tail("clean", offset + at)


def _frame(data: bytes, at: int, offset: int, prev: str | None) -> Frame | Tail:
    """Reads one frame at `at`.

    A body is ASCII without line breaks, so a line break anywhere in what is left proves that a whole frame was
    written there: then what cannot be read is damage. Only a last piece without one can be an interrupted append.
    """
    here = offset + at
    end_of_line = data.find(b"\n", at)
    whole = end_of_line >= 0
    length = _length(data[at : at + HEADER])
    if not whole:
        end = at + HEADER + (length if length is not None else len(data))
        if data[end : end + 1].strip(b"\0"):
            return Tail("damaged", here, "the frame's end is not where its length says")
        return Tail("torn", here, "the last frame is cut short")
    if length is None:
        return Tail("damaged", here, "the frame's header is not readable")
    end = at + HEADER + length
    if end_of_line != end:
        return Tail("damaged", here, "the frame's length is wrong")
    body = data[at + HEADER : end]
    if zlib.crc32(body) != int(data[at + 9 : at + 17], 16):
        return Tail("damaged", here, "the frame's checksum is wrong")
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return Tail("damaged", here, "the frame holds no JSON")
    if not isinstance(value, dict) or (prev is not None and value.get("prev") != prev):
        return Tail("damaged", here, "the frame does not follow the one before it")
    return Frame(value, digest(body), here, offset + end + 1)


def _length(header: bytes) -> int | None:
    """The body's length that a header states, or None where the header is not as `encode` writes it."""
    if not _HEADER.fullmatch(header):
        return None
    length = int(header[:8], 16)
    return length if length <= MAX_BODY else None
