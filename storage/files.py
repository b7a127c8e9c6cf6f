"""Files of the store: opened relative to a folder handle, never through a link, durable when asked to be."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO, Self

from storage.errors import AtkError, NextCall
from storage.removing import KEPT, remove

FOLDER_MODE = 0o700
FILE_MODE = 0o600
CHUNK = 1 << 20
_WRITING = os.O_WRONLY | os.O_RDWR


@dataclass(kw_only=True, eq=False)
class StoreDamaged(AtkError):
    """Something in `.atk/` is not what ATK wrote. The project can be read, not changed."""

    message = (
        "The store is damaged: {path}{place} {reason}. Nothing was changed and nothing will be until it is put right: "
        "take away what does not belong there, or restore `.atk/` from a copy. Until then read_record and get_status "
        "still work where they can."
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
    """Flushes a file to the disk. On macOS a call of its own reaches the drive itself, where the disk has it."""
    whole = getattr(fcntl, "F_FULLFSYNC", None)
    if whole is None:
        os.fsync(fd)
        return
    try:
        fcntl.fcntl(fd, whole)
    except OSError as error:
        if error.errno not in {errno.ENOTSUP, errno.ENOTTY, errno.EINVAL}:  # else the flush itself failed
            raise
        os.fsync(fd)


def open_plain(path: str) -> BinaryIO:
    """Opens a file outside of any `Folder` for reading, not through a link and without waiting for a pipe's writer.

    Raises:
        OSError: There is no file, or a link or a folder.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    return open(path, "rb", opener=lambda name, _: os.open(name, flags))  # which closes what turns out to be a folder


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
            # Without O_NONBLOCK a pipe that an agent put here would hold the call for ever; files ignore it.
            fd = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode, dir_fd=at)
        except OSError as error:
            if reason := _misplaced(error.errno, name, at):
                raise StoreDamaged(path=f"{self.path}/{path}", reason=reason) from None
            raise
        reason = "" if flags & os.O_DIRECTORY else _not_ours(os.fstat(fd), writing=bool(flags & _WRITING))
        if reason:
            os.close(fd)
            raise StoreDamaged(path=f"{self.path}/{path}", reason=reason)
        return fd

    def open(self, path: str, flags: int, mode: int = FILE_MODE) -> int:
        """Returns a descriptor of `path`: a regular file, or with `O_DIRECTORY` a folder.

        Raises:
            StoreDamaged: It is something else, or shares the bytes that are to be written with another name.
        """
        with self.parent(path) as (fd, name):
            return self._guarded(path, name, flags, fd, mode)

    def read(self, path: str, limit: int = -1) -> bytes:
        """Returns the bytes of a regular file, or its first `limit`."""
        with os.fdopen(self.open(path, os.O_RDONLY), "rb") as file:
            return file.read(limit)

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
                remove(name, fd)
        except FileNotFoundError:
            return

    def clear(self, path: str) -> bool:
        """Removes what an agent may have left, as far as the system lets go of it, and returns whether all is gone.

        What stays belongs to somebody else, as what a container wrote for its own user, or is a mount.
        """
        try:
            self.remove_tree(path)
        except OSError as error:
            if error.errno not in KEPT:
                raise
            return False
        return True

    def digest(self, path: str) -> Stored:
        """Returns the digest and the size of a file, read in pieces."""
        fd = self.open(path, os.O_RDONLY)
        found, size = hashlib.sha256(), 0
        with os.fdopen(fd, "rb") as file:
            while chunk := file.read(CHUNK):
                found.update(chunk)
                size += len(chunk)
        return Stored(found.hexdigest(), size)

    def flushed_anew(self, path: str) -> Stored:
        """Puts a flushed copy in the place of a file whose writer was killed or refused by the disk.

        What was written last may be in memory only, and a second flush of the same file would not tell.
        """
        spare = f"{path}.new"
        self.remove_tree(spare)
        with os.fdopen(self.open(path, os.O_RDONLY), "rb") as file:
            stored = self.write_new(spare, iter(partial(file.read, CHUNK), b""))
        with self.parent(path) as (fd, name):
            os.rename(f"{name}.new", name, src_dir_fd=fd, dst_dir_fd=fd)
            os.fsync(fd)
        return stored

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


def _misplaced(code: int | None, name: str, at: int) -> str:
    """Says what stands where a file or a folder of the store belongs, or nothing when that is not the trouble."""
    if code == errno.ELOOP or (code == errno.ENOTDIR and _is_link(name, at)):
        return "is a link, and the store has none"
    return {
        errno.ENOTDIR: "is not a folder",
        errno.EISDIR: "is a folder where a file belongs",
        errno.ENXIO: "is not a regular file",
    }.get(code or 0, "")


def _not_ours(about: os.stat_result, *, writing: bool) -> str:
    """Says why an opened file is none of the store's, or nothing."""
    if stat.S_ISDIR(about.st_mode):
        return "is a folder where a file belongs"
    if not stat.S_ISREG(about.st_mode):
        return "is not a regular file"
    return (
        "has further hard links, so that writing to it would change another file"
        if writing and about.st_nlink > 1
        else ""
    )


def _is_link(name: str, at: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False
