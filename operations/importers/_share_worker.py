"""Does shares of an import in a process of its own, which has no files: what comes in decides what goes out."""

from __future__ import annotations

import marshal
import os
import signal
from typing import Any

from operations.importers._langfuse_shares import TAKE, Lines, Setup, Shares
from operations.importers._shares import HELLO, receive, send


def serve(source: int, target: int) -> None:
    """Answers what comes on one descriptor on the other, until the first ends. It opens with a `Setup`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is for the process that is helped
    try:
        setup = receive(source)
        if setup is None:
            return
        shares = Setup(*setup).shares()
        send(target, HELLO)
        while (asked := receive(source)) is not None:
            send(target, _answer(shares, *asked))
    except BrokenPipeError:  # nobody waits for it any more
        os.close(target)


def _answer(shares: Shares, kind: str, share: tuple[Any, ...]) -> bytes:
    """Returns what comes of a share, or nothing where something is wrong: who asked does it again, and says so."""
    try:
        made = shares.take(Lines(*share)) if kind == TAKE else shares.assemble(share)
        return marshal.dumps(made.said())
    except Exception:  # noqa: BLE001 - it is raised where the share is done again
        return marshal.dumps(False)  # noqa: FBT003 - a value
