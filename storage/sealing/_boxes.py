"""Authenticated encryption of JSON values and files, bound to their project and to what they are.

AES-256-GCM with a random 96-bit nonce for each value (NIST SP 800-38D). A file is sealed in pieces, whose nonces are a
random prefix, the piece's number and whether it is the last (the STREAM construction of Hoang, Reyhanitabar, Rogaway
and Vizár, 2015), so that none can be moved, left out or added. Associated data are the project's id and the place.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from storage.errors import AtkError
from storage.frames import canonical

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
PREFIX = "atk1"
NONCE_BYTES = 12
TAG_BYTES = 16
PIECE_BYTES = 1 << 20
"""Bytes of a file in one sealed piece."""
_MAGIC = b"ATKSEAL1"
_ID_BYTES = 8
_SPLIT_PREFIX = 7
"""Random bytes of the nonces of a file's pieces; four more are the piece's number, one says whether it is the last."""


@dataclass(kw_only=True, eq=False)
class SealBroken(AtkError):
    """What was sealed does not open with its own key: its bytes are not those that were stored."""

    message = (
        "The sealed {place} does not open with the key {key_id}: its bytes are not those that were stored. Nothing was "
        "shown. `atk verify` names the damaged file; restore `.atk/` from a copy."
    )

    place: str
    key_id: str


def key_id_of(sealed: str) -> str:
    """Returns the id of the key that a sealed value was sealed with; empty where it is no sealed value."""
    parts = sealed.split(":")
    return parts[1] if parts[0] == PREFIX and len(parts) == 3 else ""  # noqa: PLR2004 - prefix, key, bytes


@dataclass(frozen=True)
class SealKey:
    """A project's key. What it seals says which key it was, so that a wrong one is told from damage."""

    project_id: str
    secret: bytes = field(repr=False)

    @cached_property
    def id(self) -> str:
        """Names the key without giving it away: 16 hexadecimal digits."""
        return self._derived(b"id").hex()[: 2 * _ID_BYTES]

    def digest(self, *parts: Any) -> str:  # noqa: ANN401 - JSON
        """Returns a keyed digest (HMAC-SHA-256) of JSON values: without the key, no guess at them can be checked."""
        return hmac.new(self._derived(b"digest"), canonical(list(parts)), hashlib.sha256).hexdigest()

    def seal(self, value: Any, place: str) -> str:  # noqa: ANN401 - JSON
        """Returns a JSON value sealed, as ASCII text; it opens only as `place` of this project."""
        nonce = os.urandom(NONCE_BYTES)
        data = nonce + self._cipher.encrypt(nonce, canonical(value), self._bound(place))
        return f"{PREFIX}:{self.id}:{base64.b64encode(data).decode()}"

    def open(self, sealed: str, place: str) -> Any:  # noqa: ANN401 - JSON
        """Returns the JSON value that was sealed as `place`.

        Raises:
            SealBroken: It is not what this key sealed as `place`.
        """
        try:
            data = base64.b64decode(sealed.rpartition(":")[2], validate=True)
        except ValueError:
            raise SealBroken(place=place, key_id=self.id) from None
        return json.loads(self._opened(data[:NONCE_BYTES], data[NONCE_BYTES:], place))

    def seal_bytes(self, chunks: Iterable[bytes], place: str) -> Iterator[bytes]:
        """Yields the sealed form of a file, with two pieces in memory at a time."""
        prefix = os.urandom(_SPLIT_PREFIX)
        yield _MAGIC + bytes.fromhex(self.id) + prefix
        for number, (piece, last) in enumerate(_last_told(_rechunked(chunks, PIECE_BYTES))):
            yield self._cipher.encrypt(_nonce(prefix, number, last=last), piece, self._bound(place))

    def open_bytes(self, chunks: Iterable[bytes], place: str) -> Iterator[bytes]:
        """Yields the bytes of a sealed file. Each piece is authentic; that none is missing is known at the end.

        Raises:
            SealBroken: It is not what this key sealed as `place`.
        """
        rest = iter(chunks)
        head = b""
        size = len(_MAGIC) + _ID_BYTES + _SPLIT_PREFIX
        while len(head) < size and (more := next(rest, b"")):
            head += more
        if head[: len(_MAGIC)] != _MAGIC or len(head) < size:
            raise SealBroken(place=place, key_id=self.id)
        prefix = head[size - _SPLIT_PREFIX : size]
        pieces = _rechunked(_after(head[size:], rest), PIECE_BYTES + TAG_BYTES)
        for number, (piece, last) in enumerate(_last_told(pieces)):
            yield self._opened(_nonce(prefix, number, last=last), piece, place)

    def _opened(self, nonce: bytes, data: bytes, place: str) -> bytes:
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - loaded where something is sealed

        try:
            return self._cipher.decrypt(nonce, data, self._bound(place))
        except (InvalidTag, ValueError):
            raise SealBroken(place=place, key_id=self.id) from None

    def _bound(self, place: str) -> bytes:
        return canonical([self.project_id, place])

    def _derived(self, purpose: bytes) -> bytes:
        return hmac.new(self.secret, b"atk " + purpose, hashlib.sha256).digest()

    @cached_property
    def _cipher(self) -> AESGCM:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - loaded where it is needed

        return AESGCM(self._derived(b"seal"))


def _nonce(prefix: bytes, number: int, *, last: bool) -> bytes:
    return prefix + number.to_bytes(4, "big") + bytes([last])


def _after(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _rechunked(chunks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Yields the same bytes in pieces of `size`, the last one shorter; nothing is one empty piece."""
    waiting = bytearray()
    made = False
    for chunk in chunks:
        waiting += chunk
        while len(waiting) >= size:
            yield bytes(waiting[:size])
            del waiting[:size]
            made = True
    if waiting or not made:
        yield bytes(waiting)


def _last_told(pieces: Iterator[bytes]) -> Iterator[tuple[bytes, bool]]:
    held = next(pieces)
    for piece in pieces:
        yield held, False
        held = piece
    yield held, True
