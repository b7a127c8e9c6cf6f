"""Files of the store: opened relative to a folder handle, never through a link, durable when asked to be."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Self

from storage.errors import AtkError, NextCall

FOLDER_MODE = 0o700
FILE_MODE = 0o600
CHUNK = 1 << 20


@dataclass(kw_only=True, eq=False)
class StoreDamaged(AtkError):
    """Something in `.atk/` is not what ATK wrote. The project can be read, not changed."""

    message = (
        "The store is damaged: {path}{place} {reason}. Nothing was changed and nothing will be until it is put right: "
        "restore `.atk/` from a copy, or look at it with read_record and get_status, which still work where they can."
    )
    next_calls = (NextCall("get_status"),)

    path: str
    reason: str
    place: str = ""


@dataclass(frozen=True)
class Stored:
    """One file that was written: its digest and its size in bytes."""

    sha256: str
    size: int


def write_all(fd: int, data: bytes) -> None:
    """Writes all of `data`: one `os.write` may store less than it was given."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def sync_file(fd: int) -> None:
    """Flushes a file to the disk. macOS needs its own call to reach the drive itself."""
    if hasattr(os, "F_FULLFSYNC"):  # pragma: no cover - macOS
        import fcntl  # noqa: PLC0415

        with suppress(OSError):
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)  # type: ignore[attr-defined, unused-ignore]
            return
    os.fsync(fd)


class Folder:
    """A folder by handle. Paths are relative, and a link anywhere on the way is damage.

    Close it when done; it is a context manager.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)

    def close(self) -> None:
        """Closes the handle."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def parent(self, path: str) -> Iterator[tuple[int, str]]:
        """Yields the handle of the folder that holds `path`, and the last part of `path`."""
        *folders, name = _parts(path)
        fd = os.dup(self.fd)
        try:
            for part in folders:
                deeper = self._guarded(path, part, os.O_RDONLY | os.O_DIRECTORY, fd)
                os.close(fd)
                fd = deeper
            yield fd, name
        finally:
            os.close(fd)

    def _guarded(self, path: str, name: str, flags: int, at: int, mode: int = FILE_MODE) -> int:
        try:
            return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=at)
        except OSError as error:
            link = error.errno == errno.ELOOP or (error.errno == errno.ENOTDIR and _is_link(name, at))
            if link:
                raise StoreDamaged(path=f"{self.path}/{path}", reason="is a link, and the store has none") from None
            raise

    def open(self, path: str, flags: int, mode: int = FILE_MODE) -> int:
        """Returns a descriptor of `path`."""
        with self.parent(path) as (fd, name):
            return self._guarded(path, name, flags, fd, mode)

    def read(self, path: str) -> bytes:
        """Returns the bytes of a regular file."""
        fd = self.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise StoreDamaged(path=f"{self.path}/{path}", reason="is not a regular file")
            return file.read()

    def exists(self, path: str) -> bool:
        """Whether there is anything at `path`."""
        try:
            with self.parent(path) as (fd, name):
                os.stat(name, dir_fd=fd, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def names(self, path: str = "") -> list[str]:
        """Returns what a folder holds, sorted; nothing when there is no such folder."""
        try:
            if not path:
                return sorted(os.listdir(self.fd))
            fd = self.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            return []
        try:
            return sorted(os.listdir(fd))
        finally:
            os.close(fd)

    def make_folders(self, path: str, *, durable: bool = True) -> None:
        """Makes `path` and what leads to it; each new entry is flushed into its folder."""
        done = ""
        for part in _parts(path):
            done = f"{done}/{part}" if done else part
            with self.parent(done) as (fd, name):
                try:
                    os.mkdir(name, FOLDER_MODE, dir_fd=fd)
                except FileExistsError:
                    continue
                if durable:
                    os.fsync(fd)

    def write_new(self, path: str, chunks: Iterable[bytes]) -> Stored:
        """Writes and flushes a file that must not exist. The caller flushes the folder it lies in."""
        fd = self.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        found, size = hashlib.sha256(), 0
        try:
            for piece in _pieces(chunks):
                write_all(fd, piece)
                found.update(piece)
                size += len(piece)
            sync_file(fd)
        finally:
            os.close(fd)
        return Stored(found.hexdigest(), size)

    def replace(self, path: str, data: bytes) -> None:
        """Puts a view in place: whole or not at all, and without a flush, since a view can be rebuilt."""
        with self.parent(path) as (fd, name):
            spare = f".{name}.new"
            with suppress(FileNotFoundError):
                os.unlink(spare, dir_fd=fd)
            out = self._guarded(path, spare, os.O_WRONLY | os.O_CREAT | os.O_EXCL, fd)
            try:
                write_all(out, data)
            finally:
                os.close(out)
            os.rename(spare, name, src_dir_fd=fd, dst_dir_fd=fd)

    def move(self, source: str, target: str) -> None:
        """Renames within the store and flushes the target's folder. The target must not exist."""
        with self.parent(source) as (from_fd, from_name), self.parent(target) as (to_fd, to_name):
            if self.exists(target):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
            os.rename(from_name, to_name, src_dir_fd=from_fd, dst_dir_fd=to_fd)
            os.fsync(to_fd)

    def sync(self, path: str = "") -> None:
        """Flushes a folder's entries."""
        if not path:
            os.fsync(self.fd)
            return
        fd = self.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def remove_tree(self, path: str) -> None:
        """Removes `path` and all below it, following nothing. Missing is fine."""
        try:
            with self.parent(path) as (fd, name):
                _remove(name, fd)
        except FileNotFoundError:
            return

    def digest(self, path: str) -> Stored:
        """Returns the digest and the size of a file, read in pieces."""
        fd = self.open(path, os.O_RDONLY | os.O_NONBLOCK)
        found, size = hashlib.sha256(), 0
        with os.fdopen(fd, "rb") as file:
            while chunk := file.read(CHUNK):
                found.update(chunk)
                size += len(chunk)
        return Stored(found.hexdigest(), size)

    def full(self, path: str) -> str:
        """Returns `path` as an absolute one, for a process that has no handle."""
        return os.path.join(self.path, *_parts(path))


def _parts(path: str) -> list[str]:
    parts = path.split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise ValueError(f"BUG: {path!r} is no path of the store")
    return parts


def _pieces(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yields the same bytes in pieces that are worth a system call each."""
    waiting: list[bytes] = []
    size = 0
    for chunk in chunks:
        waiting.append(chunk)
        size += len(chunk)
        if size >= CHUNK:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)


def _is_link(name: str, at: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _remove(name: str, at: int) -> None:
    mode = os.stat(name, dir_fd=at, follow_symlinks=False).st_mode
    if not stat.S_ISDIR(mode):
        os.unlink(name, dir_fd=at)
        return
    fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    try:
        if mode & 0o700 != 0o700:  # noqa: PLR2004 - an agent may leave a folder that cannot be listed
            os.fchmod(fd, FOLDER_MODE)
        for entry in os.listdir(fd):
            _remove(entry, fd)
    finally:
        os.close(fd)
    os.rmdir(name, dir_fd=at)
