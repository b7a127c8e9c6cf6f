"""Cuts the work on an export into shares, each a function of what it is given, some of which another process does.

Whoever does a share, what comes of it is the same, and it is taken in the order of the shares: so an import is the same
with and without a helper, and a helper that dies costs only time.
"""

from __future__ import annotations

import marshal
import os
import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar

from storage.errors import AtkError

Record = dict[str, Any] | bytes
"""A Record, or its JSON where a helper made it."""

HELLO = marshal.dumps("hello")
"""What a helper says when it is ready."""

_LENGTH = struct.Struct("<Q")

MOST = 12
"""Shares that are under way or wait for an earlier one; what they hold is in memory."""

ShareT = TypeVar("ShareT", bound=tuple[Any, ...])
DoneT = TypeVar("DoneT")


class Helper(Protocol):
    """Another process that does shares, in the order in which it takes them."""

    def offer(self, kind: str, share: tuple[Any, ...]) -> bool:
        """Hands a share over, if there is room for it. Returns whether there was."""
        ...

    def has_answered(self) -> bool:
        """Whether `answer` need not wait."""
        ...

    def answer(self) -> Any:  # noqa: ANN401 - what the share's kind makes
        """Waits for what came of the oldest share that was taken. Returns None where it could not be done there."""
        ...


def in_order(
    kind: str,
    shares: Iterable[ShareT],
    do: Callable[[ShareT], DoneT],
    received: Callable[[Any], DoneT],
    helper: Helper | None,
) -> Iterator[DoneT]:
    """Yields what comes of each share, in their order.

    Args:
        kind: What the helper knows them by.
        shares: Tuples of what `marshal` knows.
        do: Does one here.
        received: Makes the same of what the helper answers.
        helper: Does some of them, if there is one.

    Raises:
        AtkError: A share, or reading the next one, raised it; the earlier ones have been yielded.
    """
    waiting: deque[tuple[ShareT, DoneT | AtkError | None]] = deque()
    ended: AtkError | None = None
    following = iter(shares)
    while ended is None:
        try:
            share = next(following)
        except StopIteration:
            break
        except AtkError as error:
            ended = error
            break
        theirs = helper is not None and helper.offer(kind, share)
        waiting.append((share, None if theirs else _attempt(do, share)))
        while waiting and (waiting[0][1] is not None or len(waiting) > MOST or (helper and helper.has_answered())):
            yield _settled(waiting.popleft(), do, received, helper)
    while waiting:
        yield _settled(waiting.popleft(), do, received, helper)
    if ended is not None:
        raise ended


def _attempt(do: Callable[[ShareT], DoneT], share: ShareT) -> DoneT | AtkError:
    try:
        return do(share)
    except AtkError as error:  # it is raised once the earlier shares are through
        return error


def _settled(
    one: tuple[ShareT, DoneT | AtkError | None],
    do: Callable[[ShareT], DoneT],
    received: Callable[[Any], DoneT],
    helper: Helper | None,
) -> DoneT:
    share, made = one
    if made is None:
        answer = None if helper is None else helper.answer()
        return do(share) if answer is None else received(answer)
    if isinstance(made, AtkError):
        raise made
    return made


# -- how shares travel -------------------------------------------------------------------------------------------------


def send(target: int, data: bytes) -> int:
    """Writes what `marshal` made of something. Returns how many bytes that takes.

    Raises:
        BrokenPipeError: Nobody reads it.
    """
    whole = memoryview(_LENGTH.pack(len(data)) + data)
    left = whole
    while left:
        left = left[os.write(target, left) :]
    return len(whole)


def receive(source: int) -> Any:  # noqa: ANN401 - what was sent
    """Returns what was sent next, or None where nothing comes any more."""
    head = _exactly(source, _LENGTH.size)
    data = None if head is None else _exactly(source, _LENGTH.unpack(head)[0])
    return None if data is None else marshal.loads(data)  # noqa: S302 - of a process of ours, which alone has the pipe


def _exactly(source: int, size: int) -> bytearray | None:
    found = bytearray(size)
    left = memoryview(found)
    while left:
        got = os.readv(source, [left])
        if not got:
            return None
        left = left[got:]
    return found
