"""Runs an operation in a worker thread: progress and cancellation cross over, and no crash goes further.

The event loop never waits for an operation: a call that is given up is left to its thread, which sees
`cancelled` and comes to its own end.
"""

from __future__ import annotations

import errno
import math
import os
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import anyio
import anyio.from_thread
import anyio.to_thread

from atk_mcp import results
from atk_mcp.asking import AskFirst, input_required
from storage.errors import AtkError

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

    from operations.confirming import Ask
    from operations.definition import Operation

Note = tuple[float, float | None, str]
Progress = Callable[[float, float | None, str], Awaitable[None]]

AT_ONCE = 64
"""Calls under way at the same time; more wait. Most of them only wait for a batch."""


class Calls:
    """The calls under way in this process."""

    def __init__(self, *, strict: bool = False) -> None:
        self._strict = strict
        self._limiter: anyio.CapacityLimiter | None = None
        self._stopping = threading.Event()
        self._idle = threading.Condition()
        self.under_way = 0
        """How many operations are at work."""

    async def run(
        self,
        operations: Mapping[str, Operation[Any, Any]],
        name: str,
        arguments: Mapping[str, Any],
        progress: Progress,
        ask: Ask | None = None,
    ) -> dict[str, Any]:
        """Runs one operation and returns its tool result. It is looked up, and so loaded, in the worker thread.

        `ask` puts a question to the person behind the client, from the worker thread.

        Being cancelled sets the operation's `cancelled` and leaves the thread to end by itself.
        """
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(AT_ONCE)
        given_up = threading.Event()
        notes, waiting = anyio.create_memory_object_stream[Note](math.inf)

        def cancelled() -> bool:
            return given_up.is_set() or self._stopping.is_set()

        def work() -> dict[str, Any]:
            report = _Reporter(notes, cancelled)
            with self._counted():
                return self._answered(operations, name, arguments, report, cancelled, ask)

        async with waiting, _delivered(waiting, progress), notes:
            try:
                return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._limiter)
            except RuntimeError:  # `work` itself lets no error out: no thread could be started
                return _without_thread()
            finally:
                given_up.set()

    def stop(self, seconds: float) -> None:
        """Tells every call that it is given up and waits, at most so long, until all have ended."""
        self._stopping.set()
        deadline = time.monotonic() + seconds
        with self._idle:
            while self.under_way and (left := deadline - time.monotonic()) > 0:
                self._idle.wait(left)

    def _answered(  # noqa: PLR0913, PLR0917 - what a call is made of
        self,
        operations: Mapping[str, Operation[Any, Any]],
        name: str,
        arguments: Mapping[str, Any],
        progress: Callable[[float, float | None, str], None],
        cancelled: Callable[[], bool],
        ask: Ask | None,
    ) -> dict[str, Any]:
        """Returns a tool result, whatever happens: an answer, a refusal, a question, an incident."""
        try:
            from operations.invocation import invoke  # noqa: PLC0415 - models and store load at the first call

            response = invoke(operations[name], arguments, progress=progress, cancelled=cancelled, ask=ask)
            return results.of_response(response, strict=self._strict)
        except AtkError as error:
            return results.of_error(error)
        except AskFirst as needed:
            return input_required(needed.question)
        except Exception as error:  # noqa: BLE001 - a crash is put on record, and the client gets its id
            from atk_mcp.incidents import record  # noqa: PLC0415 - rarely needed

            return results.of_incident(record(error, name, arguments), name)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        with self._idle:
            self.under_way += 1
        try:
            yield
        finally:
            with self._idle:
                self.under_way -= 1
                self._idle.notify_all()


def _without_thread() -> dict[str, Any]:
    """Returns the refusal of a call for which the system has no room."""
    from storage.project import StorageFailed  # noqa: PLC0415 - the store loads at the first call

    return results.of_error(StorageFailed.of(OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))))


class _Reporter:
    """Sends strictly increasing progress to the event loop; falls silent when the call is given up."""

    def __init__(self, notes: MemoryObjectSendStream[Note], cancelled: Callable[[], bool]) -> None:
        self._notes = notes
        self._cancelled = cancelled
        self._last = -math.inf
        self._lock = threading.Lock()

    def __call__(self, done: float, total: float | None, note: str) -> None:
        with self._lock:
            if self._cancelled() or not done > self._last:
                return
            self._last = done
        # The client may give up, or the loop end, between the question above and the sending.
        with suppress(RuntimeError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            anyio.from_thread.run_sync(self._notes.send_nowait, (float(done), total, note))


@asynccontextmanager
async def _delivered(waiting: MemoryObjectReceiveStream[Note], progress: Progress) -> AsyncIterator[None]:
    """Passes notes on while the block runs, and the last of them before it is left."""

    async def deliver() -> None:
        async for done, total, note in waiting:
            await progress(done, total, note)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(deliver)
        yield
