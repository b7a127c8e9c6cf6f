"""Opens an export for reading once: unpacked on the way, hashed as it lies on the disk, and guarded against bombs."""

from __future__ import annotations

import gzip
import hashlib
import importlib
import io
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar, cast

from operations.importers._rows import open_regular
from storage.errors import AtkError, NextCall

CHUNK = 1 << 20
FREE_BYTES = 64 * 1024 * 1024
"""Unpacked bytes below which no ratio is a bomb's."""

MAX_RATIO = 200
"""Unpacked bytes for each packed one, beyond `FREE_BYTES`. Exports of JSON reach 10 to 60."""

PIECE = 1024
"""Bytes of a .zst file that are unpacked at once: no more than 32 MiB can come of them."""

FORMATS = {".json": "json", ".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".parquet": "parquet"}
PACKED = (".gz", ".zst")


ELSEWHERE = (
    NextCall("import_evidence", {"source_kind": "{given_kind}", "dry_run": True}, {"source": "the path of an export"}),
)
"""What leads on where nothing at the path can be imported."""


@dataclass(kw_only=True, eq=False)
class EvidenceRefused(AtkError):
    """Base of what is wrong with an export that was given."""

    next_calls: ClassVar[tuple[NextCall, ...]] = (
        NextCall("import_evidence", {"source": "{given_source}", "source_kind": "{given_kind}", "dry_run": True}),
    )

    given_source: str = ""
    given_kind: str = ""
    """What the request named, so that the same can be looked at by a dry run."""


@contextmanager
def led_back(source: str, kind: str) -> Iterator[None]:
    """Lets what is wrong with an export lead back to a dry run of it."""
    try:
        yield
    except EvidenceRefused as error:
        error.given_source, error.given_kind = source, kind
        raise


@dataclass(kw_only=True, eq=False)
class ExportFormatUnknown(EvidenceRefused):
    """A file's name does not say what it holds."""

    message = (
        "{path} is in no format that is read: .json, .jsonl, .ndjson or .csv, each also with .gz or .zst, or .parquet. "
        "Export it in one of these."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = ELSEWHERE

    path: str


@dataclass(kw_only=True, eq=False)
class PackedFileDamaged(EvidenceRefused):
    """A compressed file cannot be unpacked to its end."""

    message = "{path} cannot be unpacked: {reason}. Nothing was stored. Export it again."

    path: str
    reason: str


@dataclass(kw_only=True, eq=False)
class UnpacksTooFar(EvidenceRefused):
    """A compressed file is a bomb: it unpacks to far more than any export does."""

    message = (
        "{path} unpacks to more than {ratio} times its size, which no export does. Nothing was stored. "
        "If it is right all the same, unpack it yourself and import the file."
    )

    path: str
    ratio: int = MAX_RATIO


def format_of(name: str) -> str | None:
    """Returns `json`, `jsonl`, `csv` or `parquet` as the file's name says, in any case; else None.

    All but Parquet, which is packed by itself, may be packed.
    """
    stem, ending = os.path.splitext(name.lower())
    if ending in PACKED:
        ending = os.path.splitext(stem)[1]
        return None if ending == ".parquet" else FORMATS.get(ending)
    return FORMATS.get(ending)


class Counted(io.RawIOBase):
    """The file's own bytes, hashed and counted as they pass."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._file = file
        self._hash = hashlib.sha256()
        self.count = 0

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - a writable buffer
        """Reads into `buffer`; see `io.RawIOBase`."""
        view = memoryview(buffer).cast("B")
        got = self._file.readinto(view)  # type: ignore[attr-defined]
        self._hash.update(view[:got])
        self.count += got
        return int(got)

    @property
    def size(self) -> int:
        """How many bytes the file has."""
        return os.fstat(self._file.fileno()).st_size

    @property
    def stamp(self) -> tuple[int, int]:
        """What changes when somebody writes to the file: its size, and when that was done last."""
        found = os.fstat(self._file.fileno())
        return found.st_size, found.st_mtime_ns

    def at(self, place: int, size: int) -> bytes:
        """Returns the file's bytes from `place` on, at most `size`, beside what passes."""
        return os.pread(self._file.fileno(), size, place)

    def drain(self) -> None:
        """Reads what is left, so that the digest is the whole file's."""
        while self.read(CHUNK):
            pass

    @property
    def sha256(self) -> str:
        """The digest of what has passed."""
        return self._hash.hexdigest()


@dataclass
class Opened:
    """An open export: read unpacked bytes from `stream`; `counted` knows the packed ones."""

    path: str
    counted: Counted
    stream: BinaryIO
    packed: bool
    unpacked: int = 0
    _hash: Any = None
    _ended: bool = False

    @property
    def content_sha256(self) -> str | None:
        """The digest of what a packed file holds; None for one that is not packed, or was not read to its end."""
        return self._hash.hexdigest() if self._ended and self._hash is not None else None

    def chunks(self) -> Iterator[bytes]:
        """Yields the unpacked bytes.

        Raises:
            PackedFileDamaged: They cannot be unpacked.
            UnpacksTooFar: They are too many for the packed ones.
        """
        self._hash = hashlib.sha256() if self.packed else None
        while True:
            try:
                chunk = self.stream.read(CHUNK)
            except (OSError, EOFError, zlib.error) as error:
                if not self.packed:
                    raise
                raise PackedFileDamaged(path=self.path, reason=str(error)) from None
            if not chunk:
                self._ended = True
                return
            if self._hash is not None:
                self._hash.update(chunk)
            self.unpacked += len(chunk)
            if self.packed and self.unpacked > max(FREE_BYTES, MAX_RATIO * self.counted.count):
                raise UnpacksTooFar(path=self.path)
            # A bomb's piece may be large: who cuts it into lines would make far more of it.
            yield from (
                (chunk,) if len(chunk) <= CHUNK else (chunk[at : at + CHUNK] for at in range(0, len(chunk), CHUNK))
            )


@contextmanager
def opened(path: str) -> Iterator[Opened]:
    """Opens a regular file, unpacked as its name says.

    Raises:
        SourceNotRegular: There is no such file.
    """
    with open_regular(path) as file:
        counted = Counted(file)
        ending = os.path.splitext(path.lower())[1]
        stream: Any
        if ending == ".gz":
            stream = gzip.GzipFile(fileobj=cast("BinaryIO", io.BufferedReader(counted, CHUNK)))
        elif ending == ".zst":
            stream = _Zstandard(counted)
        else:
            stream = io.BufferedReader(counted, CHUNK)
        yield Opened(path, counted, stream, packed=ending in PACKED)


class _Zstandard:
    """Unpacks the frames of a .zst file, one after the other. The package's own reader takes half a frame for one."""

    def __init__(self, packed: Counted) -> None:
        self._package = importlib.import_module("zstandard")
        self._packed = packed
        self._frame = self._package.ZstdDecompressor().decompressobj()
        self._begun = False

    def read(self, size: int) -> bytes:
        """Returns the next bytes, some more than `size`; nothing at the end.

        Raises:
            EOFError: The file ends within a frame.
            OSError: It is not what it should be.
        """
        found: list[bytes] = []
        got = 0
        while got < size:
            piece = self._packed.read(PIECE)
            if not piece:
                if self._begun:
                    raise EOFError("it ends within a frame")
                break
            found.append(self._unpacked(piece))
            got += len(found[-1])
        return b"".join(found)

    def _unpacked(self, piece: bytes) -> bytes:
        found = b""
        while piece:
            self._begun = True
            try:
                found += self._frame.decompress(piece)
            except self._package.ZstdError as error:
                raise OSError(str(error)) from None
            if not self._frame.eof:
                break
            piece = self._frame.unused_data
            self._frame = self._package.ZstdDecompressor().decompressobj()
            self._begun = False
        return found
