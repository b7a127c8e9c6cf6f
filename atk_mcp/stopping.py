"""Turns a Ctrl-C or SIGTERM at a terminal into a request to stop in order."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from atk_mcp.terminal import complain

_SIGNALLED = 128
"""Plus a signal's number: the exit status after that signal."""


class Asked:
    """Whether and by which signal a command was asked to stop."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def __call__(self) -> bool:
        """Whether it was asked to stop."""
        return self.signal is not None

    @property
    def status(self) -> int | None:
        """The exit status that tells of the signal, as shells have it; None when there was none."""
        return None if self.signal is None else _SIGNALLED + self.signal


@contextmanager
def stoppable(asked: Asked, *, quiet: bool) -> Iterator[None]:
    """Turns the first Ctrl-C or SIGTERM into a request to stop; a second Ctrl-C ends the command at once."""

    def ask(number: int, _: object) -> None:
        if asked.signal is None:
            asked.signal = number
            signal.signal(signal.SIGINT, signal.default_int_handler)
            if not quiet:
                complain("Stopping; press Ctrl-C again to leave at once.")

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
