"""Gives a long import to a process of its own, and follows and stops it from any process.

The process carries out the whole call, so that a server stays responsive. Its folder, `work/imports/<nonce>`, says
what is imported and how far it is, and takes the file that asks it to stop; its owner lock says that it lives. It reads
the request from a pipe whose end means that the server is gone. What an import stores, the journal says, under the
request id; what a refused one was refused for lies in its folder until that is tidied up.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar

from pydantic import ValidationError

from operations.execution.announcing import ABOUT, PREFIX, PROGRESS, STOP, About, Progress, announce
from storage.errors import AtkError, NextCall
from storage.files import StoreDamaged
from storage.owners import forget_dead, is_alive
from storage.project import Project
from storage.projection import State
from storage.recovery import IMPORTS, imports_at_work
from storage.schema.base import Value
from storage.transaction import Call, ResourceBusy

SHORT_BYTES = 4 * 1024 * 1024
"""Bytes of an export that the server reads itself: it takes about as long as starting a process."""

PACKED = 10
"""How many bytes a packed byte counts for there,"""

EACH = 4096
"""and how many a file counts for: opening and naming it takes about as long as reading so many."""

LOOK_SECONDS = 0.1
"""How often an import is looked at while somebody waits for it."""

OUTCOME, LOG = "outcome.json", "import.log"
STOPPED, FAILED = 3, 4
"""How the process ends when it was asked to stop, and when the call was refused."""

_LEAVES_SECONDS = 5.0
_LARGEST = 1 << 20
"""Bytes of a file in the folder of an import that are read."""
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_BOOT = (
    "import sys; root = sys.argv.pop(1); root in sys.path or sys.path.insert(0, root); "
    "from functools import partial; from atk_mcp.incidents import record; "
    "from operations.catalog.evidence.import_evidence import import_evidence; "
    "from operations.execution.import_process import main; from operations.invocation import invoke; "
    "sys.exit(main(partial(invoke, import_evidence), record))"
)
"""`python -I` sees installed packages only; a checkout that is not installed is added."""


@dataclass(kw_only=True, eq=False)
class ImportLost(AtkError):
    """An import does not run any more and left nothing."""

    message: ClassVar[str] = (
        "{import_id} does not run and stored nothing: {how}. What it had prepared is taken away. Import again."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = (
        NextCall("import_evidence", supply={"source": "the export", "source_kind": "what it is"}),
        NextCall("get_status"),
    )

    import_id: str
    how: str


@dataclass(kw_only=True, eq=False)
class ImportCrashed(AtkError):
    """An import failed inside ATK."""

    message: ClassVar[str] = (
        "ATK failed inside {import_id}; this is a fault of ATK, not of the call. It is on record as {incident_id}, and "
        "nothing was stored."
    )

    import_id: str
    incident_id: str


class Outcome(Value):
    """Why an import was refused, or under which id its crash is on record."""

    error: str = ""
    facts: dict[str, Any] = {}
    message: str = ""
    incident_id: str | None = None


SaidT = TypeVar("SaidT", About, Progress, Outcome)


@dataclass(frozen=True)
class Job:
    """An import that runs, or one that was refused and not tidied up yet."""

    import_id: str
    alive: bool
    about: About
    progress: Progress

    @property
    def counts(self) -> dict[str, int]:
        """How far it is, in bytes and rows."""
        total = {} if self.progress.bytes_total is None else {"bytes_total": self.progress.bytes_total}
        return {"rows": self.progress.rows, "bytes_read": self.progress.bytes_read, **total}

    @property
    def sentence(self) -> str:
        """How far it is, for a person."""
        read, total = f"{self.progress.bytes_read:,}", self.progress.bytes_total
        of = "" if total is None else f" of {total:,}"
        return f"{self.import_id} is running: {self.progress.rows:,} rows and {read}{of} bytes of {self.about.source}"

    @property
    def leads_on(self) -> tuple[NextCall, ...]:
        """What follows it and what ends it."""
        named = {"batch_id": self.import_id}
        return NextCall("wait_for_batch", named), NextCall("stop_batch", named)


@dataclass(frozen=True)
class Followed:
    """An import as somebody who waited finds it: still at work, or with the answer that the journal holds."""

    job: Job | None = None
    answer: Mapping[str, Any] | None = None


def is_import_id(given: str) -> bool:
    """Whether `given` is the id of an import that is or was carried out, and not of what one stored."""
    return given.startswith(PREFIX)


def is_short(paths: Iterable[str]) -> bool:
    """Whether the files of an export are so few and so small that no process is worth starting for them."""
    size = 0
    for path in paths:
        plain = path.lower().endswith((".json", ".jsonl", ".ndjson", ".csv"))
        size += EACH + os.path.getsize(path) * (1 if plain else PACKED)
    return size <= SHORT_BYTES


# ---- starting --------------------------------------------------------------------------------------------------------

_kept: dict[str, threading.Thread] = {}
_endings: dict[str, int] = {}
"""How the processes that this one started have ended."""


def start(project: Project, call: Call, source: str, stamp: str) -> str:
    """Starts the process that carries out `call`. Returns the import's id.

    Raises:
        OSError: The process, or the thread that keeps it company, cannot be started.
    """
    owner = announce(project, call, source, stamp)
    import_id, folder = PREFIX + owner.nonce, f"{IMPORTS}/{owner.nonce}"
    arguments = {**call.arguments, "project_path": project.root}
    if call.request_id is not None:
        arguments["request_id"] = call.request_id
    try:
        log = project.store.open(f"{folder}/{LOG}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-c", _BOOT, _ROOT, project.root, owner.nonce, str(owner.fd)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=[owner.fd],
                start_new_session=True,
            )
        finally:
            os.close(log)
    except BaseException:
        project.store.remove_tree(folder)
        owner.release()
        raise
    owner.release()  # the process holds the lock from here on
    keeper = threading.Thread(target=_keep, args=(project, import_id, process, arguments), name=import_id, daemon=True)
    try:
        keeper.start()
    except RuntimeError as trouble:  # there is no room for a thread: without its request the process leaves
        if process.stdin is not None:
            process.stdin.close()
        process.wait()
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from trouble
    _kept[import_id] = keeper
    return import_id


def _keep(project: Project, import_id: str, process: subprocess.Popen[bytes], arguments: Mapping[str, Any]) -> None:
    """Hands the request over, holds the pipe by which the process knows that this one lives, and cleans up after it."""
    pipe = process.stdin
    with contextlib.suppress(BrokenPipeError):  # it ended before it had read it all
        if pipe is not None:
            pipe.write(json.dumps(arguments).encode() + b"\n")
            pipe.flush()
    _endings[import_id] = process.wait()
    with contextlib.suppress(BrokenPipeError):
        if pipe is not None:
            pipe.close()
    with contextlib.suppress(OSError, StoreDamaged):  # the next to look takes away what is left
        sweep_imports(project)
        forget_dead(project.store, import_id.removeprefix(PREFIX))


def sweep_imports(project: Project) -> None:
    """Takes away what imports left whose process was killed. Usually there is nothing."""
    store = project.store
    dead = [nonce for nonce in imports_at_work(store) if not is_alive(store, nonce)]
    for nonce in dead:
        if _said(project, nonce, OUTCOME, Outcome) is None:
            store.remove_tree(f"{IMPORTS}/{nonce}")
        forget_dead(store, nonce)
    for name in store.names("evidence") if dead else ():
        staged = name.removeprefix(".staging-")
        if staged != name and not is_alive(store, staged):
            store.remove_tree(f"evidence/{name}")
            forget_dead(store, staged)


# ---- following -------------------------------------------------------------------------------------------------------


def running(project: Project) -> list[Job]:
    """Returns the imports that are being carried out, by whichever process."""
    try:
        nonces = project.store.names(IMPORTS)
    except StoreDamaged:  # an agent put something else there; the next change puts that right
        return []
    found = (_job_of(project, nonce) for nonce in nonces)
    return [job for job in found if job is not None and job.alive]


def job_of(project: Project, import_id: str) -> Job | None:
    """Returns an import as it is now, or None where nothing is known of it any more."""
    return _job_of(project, import_id.removeprefix(PREFIX))


def running_as(project: Project, call: Call) -> str | None:
    """Returns the running import that was started under the `request_id` of `call`, if there is one.

    Raises:
        ResourceBusy: It was started with other arguments.
    """
    for job in running(project) if call.request_id is not None else ():
        if job.about.request_id == call.request_id:
            if job.about.digest != call.digest(project.mask_key):
                raise ResourceBusy(
                    resource=f"request_id {call.request_id}", holder=f"{job.import_id}, of other content"
                )
            return job.import_id
    return None


def same_as(project: Project, call: Call, stamp: str) -> str | None:
    """Returns a running import of what `call` asks for, content included, that a call without a `request_id` can join.

    A `request_id` wants a record of its own: that call does its own work, and finds the batch at its end.
    """
    jobs = running(project) if call.request_id is None else []
    return next((job.import_id for job in jobs if job.about.stamp == stamp), None)


def follow(  # noqa: PLR0913 - who waits, for what, and how it hears of it
    project: Project,
    import_id: str,
    *,
    seconds: float,
    progress: Callable[[float, float | None, str], None],
    stop_waiting: Callable[[], bool] = lambda: False,
    stop: bool = False,
) -> Followed:
    """Waits until an import has ended, at most `seconds`. With `stop` it is asked to end.

    Raises:
        AtkError: The import was refused, as it says.
        ImportLost: It was stopped or its process killed.
        ImportCrashed: It failed.
    """
    end = time.monotonic() + seconds
    while True:
        job = job_of(project, import_id)
        if (answer := _recorded(project.state(), import_id, job)) is not None:
            _let_it_leave(project, import_id)
            return Followed(answer=answer)
        if job is None or not job.alive:
            _let_it_leave(project, import_id)
            if (answer := _recorded(project.state(), import_id, job)) is None:
                raise _refusal(project, import_id)
            return Followed(answer=answer)  # it was recorded after the state had been looked at
        if job.progress.bytes_read:
            progress(job.progress.bytes_read, job.progress.bytes_total, job.progress.note)
        if stop:
            _request_stop(project, import_id)
        if time.monotonic() >= end or stop_waiting():
            return Followed(job)
        time.sleep(LOOK_SECONDS)


def _job_of(project: Project, nonce: str) -> Job | None:
    alive = is_alive(project.store, nonce)
    about = _said(project, nonce, ABOUT, About)
    if about is None:
        return None
    return Job(PREFIX + nonce, alive, about, _said(project, nonce, PROGRESS, Progress) or Progress())


def _said(project: Project, nonce: str, name: str, model: type[SaidT]) -> SaidT | None:
    """Returns what a file in the folder of an import says; what does not say it as imports do says nothing."""
    try:
        return model.model_validate_json(project.store.read(f"{IMPORTS}/{nonce}/{name}", _LARGEST))
    except (FileNotFoundError, StoreDamaged, ValidationError):
        return None


def _recorded(state: State, import_id: str, job: Job | None) -> Mapping[str, Any] | None:
    """Returns what the journal says that the import was answered, with its record."""
    made = state.requests.get((job.about.request_id if job else None) or import_id)
    if made is not None:
        return made.response
    return next((m.response for m in state.requests.values() if m.response.get("import_id") == import_id), None)


def _refusal(project: Project, import_id: str) -> AtkError:
    """Returns why an import that is over stored nothing."""
    nonce = import_id.removeprefix(PREFIX)
    outcome = _said(project, nonce, OUTCOME, Outcome)
    if outcome is None:
        sweep_imports(project)
        return ImportLost(import_id=import_id, how=_how(import_id))
    if outcome.incident_id is not None:
        return ImportCrashed(import_id=import_id, incident_id=outcome.incident_id)
    for kind in _kinds(AtkError):
        if kind.__name__ == outcome.error and {f.name for f in fields(kind)} >= outcome.facts.keys():
            with contextlib.suppress(TypeError):  # of another ATK, whose error had other facts
                return kind(**outcome.facts)
    return ImportLost(import_id=import_id, how=outcome.message.rstrip("."))


def _how(import_id: str) -> str:
    code = _endings.get(import_id)
    if code == STOPPED:
        return "it was stopped"
    if code == FAILED:  # with an outcome it would have been told by that
        return "the disk refused what it wrote, and the reason as well; look whether that disk is full"
    if code is not None and code < 0:
        return f"its process was ended by signal {-code}"
    return "it was stopped, or its process or server was killed"


def _kinds(base: type[AtkError]) -> Iterator[type[AtkError]]:
    for kind in base.__subclasses__():
        yield kind
        yield from _kinds(kind)


def _let_it_leave(project: Project, import_id: str) -> None:
    """Waits until the process is gone, so that nothing of it is there when its caller is answered."""
    if (keeper := _kept.pop(import_id, None)) is not None:
        keeper.join(_LEAVES_SECONDS)
    end = time.monotonic() + _LEAVES_SECONDS
    while is_alive(project.store, import_id.removeprefix(PREFIX)) and time.monotonic() < end:
        time.sleep(LOOK_SECONDS / 10)


def _request_stop(project: Project, import_id: str) -> None:
    path = f"{IMPORTS}/{import_id.removeprefix(PREFIX)}/{STOP}"
    with contextlib.suppress(FileNotFoundError):  # it has left its folder
        os.close(project.store.open(path, os.O_WRONLY | os.O_CREAT))
