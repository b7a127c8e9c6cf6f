"""A whole store as one file: packed with the digest of everything in it, and unpacked whole or not at all.

The file is a tar archive packed with Zstandard. Its first member, `atk-export.json`, names every other one with its
size and SHA-256; the others are the files of `.atk/` without those of work in progress and of reports.
"""

from __future__ import annotations

import errno
import io
import json
import os
import secrets
import shutil
import stat
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, BinaryIO

from storage.errors import AtkError, NextCall
from storage.files import FILE_MODE, FOLDER_MODE, Folder
from storage.founding import alone
from storage.lock import exclusive
from storage.probes import open_probes
from storage.project import ATK, Project
from storage.transaction import Call
from storage.views import REPORTS

MANIFEST = "atk-export.json"
FORMAT = 1
_LEFT_OUT = frozenset({"lock", "owners", "work", REPORTS})
_MANIFEST_BYTES = 64 << 20
_CHUNK = 1 << 20
_HEADERS = 1 << 20
"""Bytes that may lie between two members; tarfile takes headers into memory, however large they say they are."""
_DEEP, _LONG = 16, 255
"""Folders above a file, and bytes of a name, that a store has at most."""


@dataclass(kw_only=True, eq=False)
class ExportExists(AtkError):
    """There is a file already where the export was to go."""

    message = "{path} is there already, and is left as it is. Name a file that does not exist."
    next_calls = (NextCall("get_status"),)

    path: str


@dataclass(kw_only=True, eq=False)
class ExportInside(AtkError):
    """An export was to go into the store that it is of."""

    message = "{path} lies in the store itself, where only its own files belong. Name a file outside of it."
    next_calls = (NextCall("get_status"),)

    path: str


@dataclass(kw_only=True, eq=False)
class WorkInProgress(AtkError):
    """Something is being written that an export would hold half of."""

    message = "{what} is not over. Wait for it or stop it, then export again."
    next_calls = (NextCall("get_status"),)

    what: str


@dataclass(kw_only=True, eq=False)
class ExportUnusable(AtkError):
    """A file is no export, or not the one that was written. Nothing was unpacked."""

    message = "{path} cannot be unpacked: {reason}. Nothing was unpacked; take the file from its source again."
    next_calls = (NextCall("get_status"),)

    path: str
    reason: str


@dataclass(kw_only=True, eq=False)
class ProjectInPlace(AtkError):
    """There is a store already in the folder that an export was to be unpacked into."""

    message = "{root} has an .atk/ already, and it is left as it is. Unpack into another folder, or move it aside."
    next_calls = (NextCall("get_status", {"project_path": "{root}"}),)

    root: str


@dataclass(frozen=True)
class Carried:
    """What an export holds."""

    project_id: str
    journal_record: int
    files: int
    bytes: int
    """Of the files together, unpacked."""


# ---- packing -----------------------------------------------------------------------------------------------------


def export(project: Project, call: Call, path: str) -> Carried:
    """Writes the store into a new file. No other call changes the project meanwhile.

    Raises:
        ExportExists: There is something at `path`.
        ExportInside: `path` lies in the store.
        WorkInProgress: A run, a probe or an operation is open.
        OSError: The file cannot be written; what was written of it is taken away.
    """
    if os.path.lexists(path):
        raise ExportExists(path=path)
    if os.path.commonpath((own := os.path.realpath(project.store.path), os.path.realpath(path))) == own:
        raise ExportInside(path=path)
    with exclusive(project.store, call.operation, call.at) as held:
        state = project.recovered(held)
        open_work = [*state.runs, *(probe.id for probe in open_probes(state))]
        open_work += [f"record {i.number} ({i.operation})" for i in state.intents.values()]
        if open_work:
            raise WorkInProgress(what=open_work[0])
        files = {name: project.store.digest(name) for name in _names(project.store.path)}
        manifest = {
            "format": FORMAT,
            "project_id": state.project_id,
            "journal_record": state.position.number,
            "files": {name: {"sha256": found.sha256, "bytes": found.size} for name, found in files.items()},
        }
        spare = f"{path}.new-{secrets.token_hex(4)}"
        try:
            fd = os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
            with os.fdopen(fd, "wb") as out:
                _pack(project.store, manifest, out)
                out.flush()
                os.fsync(out.fileno())
            _named(spare, path)
        except FileExistsError:
            raise ExportExists(path=path) from None
        finally:
            if os.path.lexists(spare):
                os.unlink(spare)
    return Carried(state.project_id, state.position.number, len(files), sum(f.size for f in files.values()))


def _named(spare: str, path: str) -> None:
    """Gives a whole file its name, which nothing may have.

    Raises:
        FileExistsError: Something has that name.
    """
    try:
        os.link(spare, path)
    except OSError as error:
        if error.errno not in {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}:
            raise
        if os.path.lexists(path):  # drives such as USB sticks have no second names
            raise FileExistsError(path) from None
        os.rename(spare, path)
    with Folder(os.path.dirname(path) or ".") as folder:
        folder.sync()


def _names(top: str, below: str = "") -> Iterator[str]:
    with os.scandir(os.path.join(top, below)) as entries:
        for entry in sorted(entries, key=lambda e: e.name):
            name = f"{below}/{entry.name}" if below else entry.name
            if name in _LEFT_OUT or (entry.name.startswith(".") and entry.name != ".gitignore"):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _names(top, name)
            elif entry.is_file(follow_symlinks=False):
                yield name


def _pack(store: Folder, manifest: dict[str, Any], out: BinaryIO) -> None:
    import zstandard  # noqa: PLC0415 - serving loads no heavy module

    packer = zstandard.ZstdCompressor(level=6)
    with packer.stream_writer(out, closefd=False) as packed, tarfile.open(fileobj=packed, mode="w|") as tar:
        text = json.dumps(manifest, indent=1).encode()
        tar.addfile(_member(MANIFEST, len(text)), io.BytesIO(text))
        for name, said in manifest["files"].items():
            with os.fdopen(store.open(name, os.O_RDONLY), "rb") as file:
                tar.addfile(_member(f"{ATK}/{name}", said["bytes"]), file)


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, FILE_MODE
    return member


# ---- unpacking ---------------------------------------------------------------------------------------------------


def bring(path: str, root: str) -> Carried:
    """Unpacks an export into `root` as its store.

    Raises:
        ProjectInPlace: There is a store.
        ExportUnusable: The file is no export, or something in it is not what its manifest says.
        ProjectBusy: Another process makes a store there, and does not end.
    """
    with alone(root) as prefix:
        if os.path.lexists(os.path.join(root, ATK)):
            raise ProjectInPlace(root=root)
        staging = f"{prefix}import"
        os.mkdir(staging, FOLDER_MODE)
        try:
            carried = _unpacked(path, staging)
            _require_store(root, staging, carried, path)
            try:
                os.rename(staging, os.path.join(root, ATK))
            except OSError:
                if os.path.lexists(os.path.join(root, ATK)):
                    raise ProjectInPlace(root=root) from None
                raise
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise
        with Folder(root) as folder:
            folder.sync()
    return carried


def _require_store(root: str, staging: str, carried: Carried, path: str) -> None:
    """Raises ExportUnusable unless what was unpacked is a store as of the journal record that the manifest says."""
    try:
        with Folder(staging) as store:
            project = Project(root, store)
            state, damage = project.state(), project.damage()
    except AtkError as error:
        raise ExportUnusable(path=path, reason=f"it holds no store that can be read ({error.code})") from None
    if damage is not None or (state.project_id, state.position.number) != (carried.project_id, carried.journal_record):
        said = f"{carried.project_id} as of journal record {carried.journal_record}"
        raise ExportUnusable(path=path, reason=f"its journal is not that of {said}, which its manifest says")


def _unpacked(path: str, staging: str) -> Carried:
    import zstandard  # noqa: PLC0415 - serving loads no heavy module

    try:
        # Without O_NONBLOCK a pipe without a writer would hold the call for ever; files ignore it.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ExportUnusable(path=path, reason="it is no regular file")
            opener = zstandard.ZstdDecompressor(max_window_size=1 << 27)
            with opener.stream_reader(file) as reader, Folder(staging) as to:
                plain = _Bounded(reader, path)
                with tarfile.open(fileobj=plain, mode="r|") as tar:  # type: ignore[call-overload] # it only reads
                    return _each(tar, plain, to, path)
    except zstandard.ZstdError as error:
        raise ExportUnusable(path=path, reason=f"it is not packed as an export is ({error})") from None
    except (tarfile.TarError, EOFError) as error:
        raise ExportUnusable(path=path, reason=f"it is cut off or no archive ({error})") from None


class _Bounded:
    """What is unpacked, read as far as it was allowed."""

    def __init__(self, plain: IO[bytes], path: str) -> None:
        self._plain = plain
        self._path = path
        self.allow(0)

    def allow(self, size: int) -> None:
        """Lets `size` bytes be read, and headers."""
        self._left = size + _HEADERS

    def read(self, size: int) -> bytes:
        """Returns the next bytes, at most `size`.

        Raises:
            ExportUnusable: They are more than were allowed.
        """
        piece = self._plain.read(size)
        self._left -= len(piece)
        if self._left < 0:
            raise ExportUnusable(path=self._path, reason="a header in it is larger than any that an export has")
        return piece


def _each(tar: tarfile.TarFile, plain: _Bounded, to: Folder, path: str) -> Carried:
    manifest = _manifest(tar, plain, path)
    due = dict(manifest["files"])
    folders = {""}
    while (member := _next(tar, plain)) is not None:
        name = member.name.removeprefix(f"{ATK}/")
        said = due.pop(name, None)
        if said is None or member.name == name or not member.isreg() or member.issparse():
            raise ExportUnusable(path=path, reason=f"it holds {member.name!r}, which its manifest does not name")
        source = tar.extractfile(member)
        if source is None or member.size != said["bytes"]:
            raise ExportUnusable(path=path, reason=f"{name} does not have the size that the manifest says")
        plain.allow(member.size)
        if "/" in name:
            to.make_folders(name.rpartition("/")[0], durable=False)
            folders |= {name[:at] for at, sign in enumerate(name) if sign == "/"}
        if to.write_new(name, _pieces(source)).sha256 != said["sha256"]:
            raise ExportUnusable(path=path, reason=f"{name} does not have the SHA-256 that the manifest says")
    if due:
        reason = f"it lacks files of its manifest ({len(due)}), such as {next(iter(due))}"
        raise ExportUnusable(path=path, reason=reason)
    for folder in folders:
        to.sync(folder)
    size = sum(said["bytes"] for said in manifest["files"].values())
    return Carried(str(manifest["project_id"]), int(manifest["journal_record"]), len(manifest["files"]), size)


def _next(tar: tarfile.TarFile, plain: _Bounded) -> tarfile.TarInfo | None:
    plain.allow(0)
    return tar.next()


def _pieces(source: IO[bytes]) -> Iterator[bytes]:
    while piece := source.read(_CHUNK):
        yield piece


def _manifest(tar: tarfile.TarFile, plain: _Bounded, path: str) -> dict[str, Any]:
    """Returns the manifest, each of its names being one that a store can have.

    Raises:
        ExportUnusable: There is none, of a newer ATK, or it names what no store has.
    """
    first = _next(tar, plain)
    if first is None or first.name != MANIFEST or not first.isreg() or first.size > _MANIFEST_BYTES:
        raise ExportUnusable(path=path, reason=f"it does not begin with {MANIFEST}")
    plain.allow(first.size)
    source = tar.extractfile(first)
    try:
        found = json.loads(source.read() if source else b"")
        format_, files = int(found["format"]), found["files"]
        folders = {name[:at] for name in files for at, sign in enumerate(name) if sign == "/"}
        for name, said in files.items():
            if _strange(name) or name in folders or {type(said["bytes"]), type(said["sha256"])} != {int, str}:
                raise ExportUnusable(path=path, reason=f"its manifest names {name!r}, which no store has")
        str(found["project_id"]), int(found["journal_record"])
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        raise ExportUnusable(path=path, reason=f"its {MANIFEST} is not one") from None
    if format_ != FORMAT:
        raise ExportUnusable(path=path, reason=f"its format is {format_}, and this ATK reads {FORMAT}; upgrade ATK")
    manifest: dict[str, Any] = found
    return manifest


def _strange(name: str) -> bool:
    """Whether no file of a store has that name."""
    parts = name.split("/")
    return (
        any(part in {"", ".", ".."} or "\\" in part or not part.isprintable() for part in parts)
        or any(len(part.encode(errors="replace")) > _LONG for part in parts)
        or len(parts) > _DEEP
        or parts[0] in _LEFT_OUT
    )
