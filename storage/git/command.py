"""Runs git: the only module that starts it, with an environment in which nothing of the user's runs or changes.

Everything goes through GitPython's command layer, which is imported at the first call. Arguments are fixed options and
object ids; paths travel as bytes, ended by NUL, over standard input and output.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess  # noqa: TID251 - for PIPE and TimeoutExpired; the process itself is started by GitPython
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Self

from storage.git.failures import (
    CorruptRepository,
    GitFailed,
    GitMissing,
    GitSyncFailed,
    GitTimedOut,
    UnsafeOwner,
    failure,
    locked,
)

if TYPE_CHECKING:
    from git.cmd import Git as Command

    from storage.errors import AtkError

ENVIRONMENT = {
    "LC_ALL": "C",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TEST_REFTABLE_AUTOCOMPACTION": "false",
    "GIT_EDITOR": "false",
    "GIT_ASKPASS": "false",
    "SSH_ASKPASS": "false",
}
"""What every child gets. All other GIT_* variables are taken away from it.

Without compaction a killed child can leave a lock on the list of reftables only; the user's next git compacts them.
"""

SETTINGS = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.safecrlf": "false",
    "core.fsync": "committed,index,reference",
    "core.fsyncMethod": "fsync",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "protocol.allow": "never",
    "submodule.recurse": "false",
    "i18n.commitEncoding": "UTF-8",
}
"""Settings that stand above the user's. The rest of the user's configuration holds: filters need it."""

READING = frozenset(
    {
        *("cat-file", "check-attr", "config", "diff-files", "diff-index", "diff-tree", "for-each-ref", "hash-object"),
        *("ls-files", "ls-tree", "rev-parse", "symbolic-ref", "var", "version", "worktree"),
    }
)
"""The commands of ours that write neither a ref nor an index, so that no hook belongs to them."""

TIME_LIMIT = 120.0
"""Seconds that one call may take before it is asked to end with SIGTERM, never SIGKILL: git then removes its locks."""

CHUNK = 1 << 20
"""Bytes of a blob that are in memory at a time."""


@dataclass(frozen=True)
class Output:
    """What one git command said."""

    status: int
    out: bytes
    err: str


@dataclass(frozen=True)
class _Call:
    """Where and under what settings one command runs."""

    cwd: str
    env: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)


class Refs(NamedTuple):
    """Where a repository keeps its refs, and whether as reftables: those of all worktrees, and a worktree's own."""

    tables: bool
    shared: str
    own: str


class Git:
    """Git at one project folder. One object belongs to one thread: the persistent object reader cannot be shared.

    Attributes:
        root: The real path of the project folder.
    """

    def __init__(
        self,
        root: str,
        program: str = "git",
        *,
        linked: tuple[str, str] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Opens git at `root`, or there with the administrative folder and the worktree's top that `linked` names.

        Without `linked` git finds both by itself; with it, nothing that lies in the worktree is asked. `settings` hold
        for every command, below `SETTINGS`.
        """
        self.root = os.path.realpath(root)
        self.program = program
        self._place = {} if linked is None else {"GIT_DIR": linked[0], "GIT_WORK_TREE": linked[1]}
        self._settings = settings or {}
        self._reader: Any = None

    def run(  # noqa: PLR0913 - each is one property of a process
        self,
        *arguments: str,
        stdin: bytes | BinaryIO = b"",
        index: str | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        ok: Sequence[int] = (0,),
        settings: Mapping[str, str] | None = None,
    ) -> Output:
        """Runs one git command and returns its status, its bytes and what it said on standard error.

        `index` is a private index file, `cwd` a folder other than the root, `settings` more configuration.

        Raises:
            AtkError: The status is not in `ok`; the subclass says why.
        """
        with _spooled(stdin) as source:
            private = {"GIT_INDEX_FILE": index} if index else {}
            process = self._start(
                arguments, source, _Call(cwd or self.root, {**private, **(env or {})}, settings or {})
            )
            try:
                out, err = process.communicate(timeout=TIME_LIMIT)
            except subprocess.TimeoutExpired:
                _end(process)
                raise GitTimedOut(command=arguments[0], seconds=int(TIME_LIMIT)) from None
            except BaseException:
                _end(process)
                raise
        said = err.decode("utf-8", "replace").strip()
        status = int(process.returncode)
        if status not in ok and "cannot lock references" in said:  # git names no file here
            raise locked(os.path.join(self.refs.shared, "reftable", "tables.list.lock"))
        if status not in ok:
            raise failure(self.root, arguments[0], status, said)
        return Output(status, out, said)

    def line(self, *arguments: str, **options: Any) -> str:  # noqa: ANN401 - the options of `run`
        """Returns what a command prints, as text without its last newline; bytes outside UTF-8 become surrogates."""
        return os.fsdecode(self.run(*arguments, **options).out.removesuffix(b"\n"))

    def records(self, *arguments: str, **options: Any) -> list[bytes]:  # noqa: ANN401 - the options of `run`
        """Returns the NUL-ended records that a command prints."""
        return [x for x in self.run(*arguments, **options).out.split(b"\0") if x]

    @cached_property
    def git_dir(self) -> str:
        """The real path of this worktree's own Git folder: index, HEAD, what is under way."""
        return os.path.realpath(self.line("rev-parse", "--absolute-git-dir"))

    @cached_property
    def common_dir(self) -> str:
        """The real path of the folder that linked worktrees share: refs and objects."""
        return os.path.realpath(os.path.join(self.root, self.line("rev-parse", "--git-common-dir")))

    @cached_property
    def refs(self) -> Refs:
        """Where the refs lie: in the Git folders, unless `extensions.refStorage` says otherwise."""
        head = os.path.join(self.common_dir, "HEAD")
        if os.path.islink(head) or not _says(head, b"ref: refs/heads/.invalid\n"):  # what git before 2.45 is to see
            return Refs(tables=False, shared=self.common_dir, own=self.git_dir)
        kind, _, elsewhere = self.line("config", "--get", "extensions.refStorage", ok=(0, 1)).partition("://")
        if not elsewhere:
            return Refs(kind == "reftable", self.common_dir, self.git_dir)
        shared = os.path.realpath(os.path.join(self.common_dir, elsewhere))
        linked = os.path.join(shared, "worktrees", os.path.basename(self.git_dir))
        return Refs(kind == "reftable", shared, shared if self.git_dir == self.common_dir else linked)

    @cached_property
    def _no_hooks(self) -> dict[str, str]:
        """What switches off the hooks that are settings (Git 2.54): each by its name, in the environment of a child."""
        kind = r"^hook\..*\.(command|event)$"
        keys = self.records("config", "-z", "--name-only", "--get-regexp", kind, ok=(0, 1))
        names = sorted({os.fsdecode(x).removeprefix("hook.").rpartition(".")[0] for x in keys})
        said = {f"GIT_CONFIG_KEY_{n}": f"hook.{name}.enabled" for n, name in enumerate(names)}
        said |= {f"GIT_CONFIG_VALUE_{n}": "false" for n in range(len(names))}
        return {**said, "GIT_CONFIG_COUNT": str(len(names))} if names else {}

    @cached_property
    def top(self) -> str:
        """The real path of the worktree's top folder."""
        return os.path.realpath(self.line("rev-parse", "--show-toplevel"))

    @cached_property
    def prefix(self) -> bytes:
        """The project folder seen from the top: empty, or ending in a slash."""
        below = os.path.relpath(self.root, self.top)
        return b"" if below == "." else os.fsencode(below) + b"/"

    @cached_property
    def algorithm(self) -> str:
        """The hash of this repository's objects: `sha1` or `sha256`."""
        return self.line("rev-parse", "--show-object-format")

    def setting(self, name: str) -> bool:
        """Returns a yes-or-no setting of the user's; one that is not set is no."""
        return self.run("config", "--type=bool", "--get", name, ok=(0, 1)).out.strip() == b"true"

    def ref(self, name: str) -> str | None:
        """Returns the object that `name` points to, or None. `name` is a full ref or another fixed expression."""
        found = self.run("rev-parse", "-q", "--verify", "--end-of-options", name, ok=(0, 1, 128))
        if found.status == 128 and "dubious ownership" in found.err:  # noqa: PLR2004 - git's status for a fatal error
            raise UnsafeOwner(path=self.root)
        return found.out.decode().strip() or None

    def missing(self, ids: Iterable[str]) -> set[str]:
        """Returns those of the object ids that this repository does not have."""
        wanted = sorted(set(ids))
        if not wanted:
            return set()
        said = self.run("cat-file", "--batch-check", stdin="".join(x + "\n" for x in wanted).encode()).out
        return {x.split()[0].decode() for x in said.splitlines() if x.endswith(b" missing")}

    def read(self, object_id: str) -> bytes:
        """Returns a blob's bytes, unfiltered."""
        return b"".join(self.stream(object_id))

    def stream(self, object_id: str) -> Iterator[bytes]:
        """Yields a blob's bytes, unfiltered, in chunks of at most `CHUNK`.

        Raises:
            CorruptRepository: The object is missing or cannot be read.
            AtkError: Git ended, or was ended; the subclass says why.
        """
        if self._reader is None:
            self._reader = self._start(("cat-file", "--batch"), subprocess.PIPE, _Call(self.root))
        reader = self._reader
        with suppress(BrokenPipeError):  # it is gone, and then says nothing either
            reader.stdin.write(object_id.encode() + b"\n")
            reader.stdin.flush()
        header = reader.stdout.readline().split()
        if not header:
            raise self._reader_ended()
        if len(header) != 3 or header[1] != b"blob":  # noqa: PLR2004 - id, type, size
            self.close()
            raise CorruptRepository(reason=f"object {object_id} is missing or is not a blob")
        left = int(header[2])
        while left:
            chunk = reader.stdout.read(min(left, CHUNK))
            if not chunk:
                raise self._reader_ended()
            left -= len(chunk)
            yield chunk
        reader.stdout.read(1)

    def write(self, source: BinaryIO) -> str:
        """Stores a file's bytes as a blob, exactly as they are, and returns its id."""
        return self.line("hash-object", "-w", "--no-filters", "--stdin", stdin=source)

    def sync(self) -> None:
        """Makes everything written to the repository survive a power cut: syncfs, or sync where there is none.

        Raises:
            GitSyncFailed: The disk reported an error.
        """
        by_disk = {os.stat(x).st_dev: x for x in (self.refs.shared, self.git_dir, self.common_dir)}
        for folder in by_disk.values():
            sync_disk(folder)

    def close(self) -> None:
        """Ends the persistent object reader. The next read starts another."""
        if self._reader is not None:
            reader, self._reader = self._reader, None
            with suppress(BrokenPipeError):  # what it was not told any more
                reader.stdin.close()
            _end(reader)

    def _reader_ended(self) -> AtkError:
        """Returns why the object reader ended by itself, and forgets it."""
        status = int(self._reader.proc.wait())
        said = self._reader.stderr.read().decode("utf-8", "replace").strip()
        self.close()
        return failure(self.root, "cat-file", status, said)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self, arguments: Sequence[str], stdin: BinaryIO | int, call: _Call) -> Any:  # noqa: ANN401 - GitPython's wrapper around Popen has no public type
        child = {**ENVIRONMENT, **self._place, **call.env, **({} if arguments[0] in READING else self._no_hooks)}
        # GitPython hands on os.environ whole and can only add to it, so `env -u` takes the rest away.
        alien = [x for x in os.environ if x.startswith("GIT_") and x not in child]
        drop = ["env", *(y for x in alien for y in ("-u", x))] if alien else []
        options = [y for k, v in {**self._settings, **SETTINGS, **call.settings}.items() for y in ("-c", f"{k}={v}")]
        command = [*drop, self.program, "-C", call.cwd, "--no-pager", "--literal-pathspecs", *options, *arguments]
        if shutil.which(self.program) is None:
            raise GitMissing(program=self.program)
        try:
            return _command(call.cwd).execute(
                command, istream=stdin, as_process=True, env=child, start_new_session=True
            )
        except _not_found() as gone:  # just now, or what is to interpret it
            raise GitMissing(program=self.program) from gone


def _command(cwd: str) -> Command:
    try:
        from git.cmd import Git as GitCommand  # noqa: PLC0415 - importing GitPython runs git once
    except ImportError as error:
        if isinstance(error.__cause__, OSError):  # the system started none; that is no word of git's
            raise error.__cause__ from error
        said = " ".join(str(error.__cause__ or error).split())
        raise GitFailed(command="version", status=getattr(error.__cause__, "status", 1), reason=said) from error

    return GitCommand(cwd)


def _not_found() -> type[Exception]:
    from git.exc import GitCommandNotFound  # noqa: PLC0415 - as above

    return GitCommandNotFound


def _spooled(data: bytes | BinaryIO) -> BinaryIO:
    """Returns a real file that holds `data`, at its beginning; a file that was given stays the caller's to close."""
    if not isinstance(data, bytes):
        return os.fdopen(os.dup(data.fileno()), "rb")
    if not data:
        return open(os.devnull, "rb")
    spool = tempfile.TemporaryFile()  # noqa: SIM115 - the caller's `with` closes it
    spool.write(data)
    spool.seek(0)
    return spool


def _end(process: Any) -> None:  # noqa: ANN401 - GitPython's wrapper around Popen
    """Asks a process and the filters it started to end, and waits for it; SIGTERM lets git remove its locks."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        process.proc.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe:
            pipe.close()


def _says(path: str, content: bytes) -> bool:
    with open(path, "rb") as file:
        return file.read() == content


def sync_disk(folder: str) -> None:
    """Flushes the file system that holds `folder`.

    Raises:
        GitSyncFailed: The disk reported an error.
    """
    if sys.platform != "linux":
        os.sync()
        return
    libc = ctypes.CDLL(None, use_errno=True)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if libc.syncfs(handle):
            raise GitSyncFailed(path=folder, reason=os.strerror(ctypes.get_errno()))
    finally:
        os.close(handle)
