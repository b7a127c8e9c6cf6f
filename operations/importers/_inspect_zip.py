"""Reads the members of an inspect_ai log, which is a zip file, one after another; unpacks deflate and Zstandard.

Zstandard is what inspect_ai writes since 2026, and what Python's own `zipfile` reads only from 3.14 on.
"""

from __future__ import annotations

import importlib
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Self

from operations.importers._grouping import MAX_TRACE, TraceTooLarge
from operations.importers._rows import open_regular
from operations.importers._streams import (
    CHUNK,
    FREE_BYTES,
    MAX_RATIO,
    EvidenceRefused,
    PackedFileDamaged,
    UnpacksTooFar,
)

HEADER, START, SUMMARIES, REDUCTIONS = "header.json", "_journal/start.json", "summaries.json", "reductions.json"

_ZSTANDARD = 93
_LOCAL = struct.Struct("<4s22xHH")


@dataclass(kw_only=True, eq=False)
class NotAnInspectLog(EvidenceRefused):
    """A file is not a log of inspect_ai."""

    message = (
        "{path} is not a log of inspect_ai: {reason}. Nothing was stored. A zip file is read only as such a log "
        "(.eval); unpack another one yourself and import what is in it."
    )

    path: str
    reason: str


class LogArchive:
    """One `.eval` file. Use it in a `with`; members are read as JSON text, whole, within what a trace may have."""

    def __init__(self, path: str) -> None:
        """Opens the file.

        Raises:
            NotAnInspectLog: It is no zip file, or holds no log.
            SourceNotRegular: There is no such file.
        """
        self.path = path
        self._file: BinaryIO = open_regular(path)
        self._allowed = max(FREE_BYTES, MAX_RATIO * os.fstat(self._file.fileno()).st_size)
        self._unpacked = 0
        self.replaced = 0
        """Members that a later one of the same name replaced, as every reader of zip files takes it."""
        try:
            members = zipfile.ZipFile(self._file)
        except (zipfile.BadZipFile, OSError, ValueError, UnicodeDecodeError, struct.error) as error:
            self._file.close()
            raise NotAnInspectLog(path=path, reason=f"it cannot be opened as a zip file ({error})") from None
        self._members = members
        self._by_name = {one.filename: one for one in members.infolist()}
        self.replaced = len(members.infolist()) - len(self._by_name)
        if HEADER not in self._by_name and START not in self._by_name:
            self._file.close()
            raise NotAnInspectLog(path=path, reason=f"it holds neither {HEADER} nor {START}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._members.close()
        self._file.close()

    @property
    def names(self) -> list[str]:
        """The names of the members, in order."""
        return sorted(self._by_name)

    def read(self, name: str) -> bytes:
        """Returns what a member holds.

        Raises:
            PackedFileDamaged: It cannot be unpacked to its end.
            UnpacksTooFar: The file unpacks to far more than any log does.
            TraceTooLarge: The member is more than is held in memory.
        """
        pieces: list[bytes] = []
        size = 0
        for piece in self._pieces(self._by_name[name]):
            pieces.append(piece)
            size += len(piece)
            self._unpacked += len(piece)
            if self._unpacked > self._allowed:
                raise UnpacksTooFar(path=self.path)
            if size > MAX_TRACE:
                raise TraceTooLarge(trace_id=f"{os.path.basename(self.path)} {name}"[:80])
        return b"".join(pieces)

    def _pieces(self, member: zipfile.ZipInfo) -> Iterator[bytes]:
        try:
            if member.compress_type == _ZSTANDARD:
                yield from self._zstandard(member)
                return
            with self._members.open(member) as stream:
                while piece := stream.read(CHUNK):
                    yield piece
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError, zlib.error) as error:
            raise PackedFileDamaged(path=self.path, reason=f"{member.filename}: {error}") from None

    def _zstandard(self, member: zipfile.ZipInfo) -> Iterator[bytes]:
        self._file.seek(member.header_offset)
        head = self._file.read(_LOCAL.size)
        if len(head) < _LOCAL.size or head[:4] != b"PK\x03\x04":
            raise zipfile.BadZipFile("its local header is not there")
        _, name, extra = _LOCAL.unpack(head)
        packed = _Slice(self._file, member.header_offset + _LOCAL.size + name + extra, member.compress_size)
        package: Any = importlib.import_module("zstandard")  # at first use, since few files need it
        stream = package.ZstdDecompressor().stream_reader(packed, read_across_frames=True)
        sum_, size = 0, 0
        try:
            while piece := stream.read(CHUNK):
                sum_, size = zlib.crc32(piece, sum_), size + len(piece)
                yield piece
        except package.ZstdError as error:
            raise zipfile.BadZipFile(str(error)) from None
        if sum_ != member.CRC or size != member.file_size:
            raise zipfile.BadZipFile("its content has another checksum")


class _Slice:
    """Some bytes of a file, read in order."""

    def __init__(self, file: BinaryIO, start: int, size: int) -> None:
        self._file = file
        self._at = start
        self._left = size

    def read(self, size: int = -1) -> bytes:
        """Reads up to `size` bytes."""
        wanted = self._left if size < 0 else min(size, self._left)
        self._file.seek(self._at)
        found = self._file.read(wanted)
        self._at += len(found)
        self._left -= len(found)
        return found
