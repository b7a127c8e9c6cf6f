"""The process that carries out one import: it ends with it, when it is asked to, and when its server is gone."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from operations.execution.announcing import PREFIX, STOP
from operations.execution.importing import FAILED, OUTCOME, STOPPED, Outcome
from operations.execution.processes import is_readable
from operations.importers.evidence import ImportStopped
from storage.errors import AtkError
from storage.owners import forget
from storage.project import Project
from storage.recovery import IMPORTS

LOOK_SECONDS = 0.2
"""How often it looks for the file that asks it to stop."""

GRACE_SECONDS = 10.0
"""How long an import may take to notice that it is to stop; what it leaves then, the next to look takes away."""


def main(run: Callable[..., Any], record: Callable[[BaseException, str, Mapping[str, Any]], str]) -> int:
    """Carries out the request that comes on stdin, and leaves nothing but what it stored or why it did not.

    Args:
        run: Runs the operation; see `operations.invocation.invoke`.
        record: Puts a crash on record and returns its id.
    """
    root, nonce, owner = sys.argv[1:4]
    os.set_inheritable(int(owner), False)  # noqa: FBT003 - that is its signature
    project = Project.open(root)
    asked = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: asked.set())
    line = sys.stdin.buffer.readline()
    if not line.endswith(b"\n"):  # the server died before it had asked for anything
        _leave(project, nonce, None)
        return STOPPED
    arguments = json.loads(line)
    stop = project.store.full(f"{IMPORTS}/{nonce}/{STOP}")
    threading.Thread(target=_watch, args=(asked, stop), name="watch", daemon=True).start()
    code, outcome = 0, None
    try:
        run(arguments, cancelled=asked.is_set, stays=True, handle=PREFIX + nonce)
    except ImportStopped:
        code = STOPPED
    except AtkError as error:
        code, outcome = FAILED, Outcome(error=type(error).__name__, facts=error.facts, message=str(error))
    except Exception as error:  # noqa: BLE001 - a crash is put on record, and whoever follows gets its id
        code, outcome = FAILED, Outcome(incident_id=record(error, "import_evidence", arguments))
    _leave(project, nonce, outcome)
    return code


def _watch(asked: threading.Event, stop: str) -> None:
    """Notices the end of the server and the file that asks to stop, and ends a process that does not react."""
    since = None
    gone = False
    while True:
        if gone:
            time.sleep(LOOK_SECONDS)
        else:
            gone = is_readable(0, LOOK_SECONDS) and not os.read(0, 64)
        if gone or os.path.lexists(stop):
            asked.set()
        if asked.is_set():
            since = since or time.monotonic()
            if time.monotonic() - since > GRACE_SECONDS:
                os._exit(STOPPED)


def _leave(project: Project, nonce: str, outcome: Outcome | None) -> None:
    """Takes the folder away, or all in it but why the call was refused: somebody may ask that later."""
    folder = f"{IMPORTS}/{nonce}"
    with contextlib.suppress(OSError):  # the disk refuses: the next to look takes away what is left
        if outcome is None:
            project.store.remove_tree(folder)
        else:
            project.store.replace(f"{folder}/{OUTCOME}", outcome.model_dump_json().encode())
        forget(project.store, nonce)
