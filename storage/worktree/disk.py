"""What lies at a path of the worktree, without following links or opening what is not a regular file."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from typing import Literal

Kind = Literal["absent", "file", "link", "folder", "special", "beyond"]
"""`beyond`: a parent folder of the path is a link, so that the path names something elsewhere."""


@dataclass(frozen=True)
class Found:
    """What lies at a path: its kind, and its status where it has one."""

    kind: Kind
    status: os.stat_result | None = None


def look(top: str, path: bytes) -> Found:
    """Returns what lies at a path below `top`."""
    base = os.fsencode(top)
    parent = os.path.dirname(path)
    while parent:
        if os.path.islink(os.path.join(base, parent)):
            return Found("beyond")
        parent = os.path.dirname(parent)
    try:
        status = os.lstat(os.path.join(base, path))
    except (FileNotFoundError, NotADirectoryError):
        return Found("absent")
    kinds: dict[int, Kind] = {stat.S_IFREG: "file", stat.S_IFLNK: "link", stat.S_IFDIR: "folder"}
    return Found(kinds.get(stat.S_IFMT(status.st_mode), "special"), status)


def open_file(top: str, path: bytes) -> BufferedReader:
    """Opens a regular file for reading; a link or pipe that took its place is neither followed nor waited for.

    Raises:
        OSError: The path is no longer a regular file.
    """
    handle = os.open(os.path.join(os.fsencode(top), path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(f"{path!r} is not a regular file")
    return os.fdopen(handle, "rb")


def new_folder(scratch: str, purpose: str) -> str:
    """Returns a new folder in `scratch`, so that an attempt never meets what a killed one left, such as git's locks."""
    return tempfile.mkdtemp(prefix=purpose + "-", dir=scratch)


def fingerprint(top: str, path: bytes) -> str:
    """Returns what identifies the content at a path.

    `sha256:<hex>:<Git's mode>` for a file, `link:<target>` for a link (as `encode_path` writes paths), `absent`, or
    `special` for what is neither; a folder is described by everything in it as `folder:<hex>`.
    """
    found = look(top, path)
    if found.kind == "file" and found.status:
        with open_file(top, path) as file:
            mode = "100755" if found.status.st_mode & stat.S_IXUSR else "100644"
            return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}:{mode}"
    if found.kind == "link":
        target = os.readlink(os.path.join(os.fsencode(top), path))
        return "link:" + target.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")
    if found.kind == "folder":
        total = hashlib.sha256()
        for below in walk(top, path):
            # A link's target may hold line breaks; as text it has no backslash before an `n` that is not doubled.
            mark = fingerprint(top, below).replace("\n", "\\n")
            total.update(b"%d:%s %s\n" % (len(below), below, mark.encode()))
        return f"folder:{total.hexdigest()}"
    return "absent" if found.kind in {"absent", "beyond"} else "special"


def walk(top: str, path: bytes) -> Iterator[bytes]:
    """Yields the paths of all but folders below the folder `path`, in order, without `.git` and `.atk` parts."""
    with os.scandir(os.path.join(os.fsencode(top), path)) as entries:
        found = sorted((x.name, x.is_dir(follow_symlinks=False)) for x in entries)
    for name, is_folder in found:
        if name in {b".git", b".atk"} or name.startswith(b".atk.new-"):
            continue
        below = os.path.join(path, name) if path else name
        if is_folder:
            yield from walk(top, below)
        else:
            yield below


def folders_below(top: str, path: bytes) -> Iterator[bytes]:
    """Yields the folder `path` and every folder below it but those named `.git`; links are not followed."""
    base = os.fsencode(top)
    for folder, below, _ in os.walk(os.path.join(base, path)):
        below[:] = [x for x in below if x != b".git"]
        yield os.path.relpath(folder, base)


def blob_id(top: str, path: bytes, algorithm: str) -> str:
    """Returns the object id that the file's exact bytes have as a blob, or a link's target as Git stores it."""
    found = look(top, path)
    if found.kind == "link":
        target = os.readlink(os.path.join(os.fsencode(top), path))
        return hashlib.new(algorithm, b"blob %d\0" % len(target) + target, usedforsecurity=False).hexdigest()
    with open_file(top, path) as file:
        total = hashlib.new(algorithm, b"blob %d\0" % os.fstat(file.fileno()).st_size, usedforsecurity=False)
        while chunk := file.read(1 << 20):
            total.update(chunk)
    return total.hexdigest()
