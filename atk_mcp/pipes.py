"""The process's stdin and stdout as the wire: taken before anything else can touch them, carried by two threads.

The threads make that a client which does not read never holds up the event loop, and a blocked read
never holds up the exit. Standard library only, so that a client can be greeted while the SDK loads.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from collections.abc import Iterator
from typing import Literal, Protocol

MAX_LINE = 64 * 1024 * 1024
"""Bytes of one message. Nothing that a tool takes is near it; a client that sends more is not one."""

_CHUNK = 1 << 16

_TOO_LONG = -32600
"""JSON-RPC's code for what is no request."""

End = Literal["ended", "lost"]


class _LineTooLong(Exception):
    """A line is longer than `MAX_LINE`."""


def fill_closed() -> None:
    """Opens what this process was started without: an empty stdin, a stdout and stderr that are thrown away.

    Otherwise the next file or connection gets the number, and what reads stdin or prints would act on that.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free
            os.set_inheritable(null, True)  # noqa: FBT003 - takes no names; children would get a closed one again
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - for as long as the process
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - as above
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - as above


class Greeter(Protocol):
    """Answers what can be answered before the server stands."""

    def __call__(self, line: bytes) -> tuple[bytes | None, bool] | None:
        """Returns the answer, if any, and whether the server must see the line too; None when it is not for us."""


class Receiver(Protocol):
    """The server's end of the wire. Its methods are called from the wire's threads."""

    def received(self, line: bytes) -> None:
        """Takes a line that the client sent."""

    def over(self, end: End) -> None:
        """Takes note that the client has hung up (`ended`) or no longer reads (`lost`)."""


class Pipes:
    """The wire. Lines are greeted until a receiver is attached; what is not greeted waits for it."""

    def __init__(self, incoming: int, outgoing: int, greeter: Greeter | None = None) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._greeter = greeter
        self._receiver: Receiver | None = None
        self._waiting: list[bytes] = []
        self._over: set[End] = set()
        self._lock = threading.Lock()
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write, name="wire-out", daemon=True)
        self._reader = threading.Thread(target=self._read, name="wire-in", daemon=True)

    @classmethod
    def claim(cls, greeter: Greeter | None = None) -> Pipes:
        """Takes stdin and stdout. From now on a read from stdin finds nothing and a print goes to stderr."""
        pipes = cls(os.dup(0), os.dup(1), greeter)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        os.dup2(2, 1)
        return pipes

    def start(self) -> None:
        """Starts reading and writing."""
        self._writer.start()
        self._reader.start()

    def attach(self, receiver: Receiver) -> tuple[list[bytes], frozenset[End]]:
        """Makes `receiver` the wire's end. Returns the lines that wait for it, and which ends came before it."""
        with self._lock:
            self._receiver = receiver
            waiting, self._waiting = self._waiting, []
            return waiting, frozenset(self._over)

    def send(self, line: bytes) -> None:
        """Sends a line when the client reads; never waits."""
        self._lines.put(line + b"\n")

    def close(self, seconds: float) -> None:
        """Writes what is waiting, for at most so long."""
        self._lines.put(None)
        self._writer.join(seconds)

    def _read(self) -> None:
        try:
            for line in _lines_of(self._incoming):
                with self._lock:
                    receiver = self._receiver
                    if receiver is None:
                        self._greet(line)
                if receiver is not None:
                    receiver.received(line)
        except _LineTooLong:
            why = f"A line is longer than {MAX_LINE} bytes. The server ends: it cannot tell where the next begins."
            error = {"code": _TOO_LONG, "message": why}
            self.send(json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode())
        finally:  # whatever stopped the reading: a server that hears nothing any more must not go on
            self._tell("ended")

    def _greet(self, line: bytes) -> None:
        greeted = self._greeter(line) if self._greeter else None
        if greeted is None:
            self._greeter = None  # from here on, order matters more than speed
            self._waiting.append(line)
            return
        answer, wanted = greeted
        if answer is not None:
            self.send(answer)
        if wanted:
            self._waiting.append(line)

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            rest = memoryview(line)
            try:
                while rest:
                    rest = rest[os.write(self._outgoing, rest) :]
            except OSError:
                self._tell("lost")
                return

    def _tell(self, end: End) -> None:
        with self._lock:
            receiver = self._receiver
            if receiver is None:
                self._over.add(end)
        if receiver is not None:
            receiver.over(end)


def _lines_of(descriptor: int) -> Iterator[bytes]:
    """Yields the lines that are not blank, until the end.

    Raises:
        _LineTooLong: A line is longer than `MAX_LINE`.
    """
    pending = bytearray()
    while chunk := _chunk_of(descriptor):
        pending += chunk
        if b"\n" in chunk:
            *whole, rest = bytes(pending).split(b"\n")
            pending = bytearray(rest)
            yield from (line for line in whole if line.strip())
        elif len(pending) > MAX_LINE:
            raise _LineTooLong
    if pending.strip():
        yield bytes(pending)


def _chunk_of(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _CHUNK)
    except OSError:
        return b""  # a descriptor that cannot be read has nothing more to say
