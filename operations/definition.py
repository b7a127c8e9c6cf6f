"""One operation, defined once.

The MCP tool, the inspector command, the reference page and the contract tests are all
read off an `Operation`; none of them repeats it.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Generic, TypeVar, get_type_hints

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from operations.context import Context
from storage.errors import AtkError, NextCall


def _said(given: str) -> str:
    if not any(sign.isprintable() and not sign.isspace() for sign in given):
        raise PydanticCustomError("blank", "is blank; say it in words")
    return given


Reason = Annotated[str, Field(min_length=1), AfterValidator(_said)]
"""Words that a person will read later to know why: a reason, a risk, a symptom. Blanks and invisible signs are none."""


class Model(BaseModel):
    """The base of requests, responses and their parts: frozen, strict, no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Request(Model):
    """The base of every operation's request."""

    project_path: Annotated[str | None, Field(description="Default: the working folder.")] = None


class WriteRequest(Request):
    """The base of a request that changes something."""

    request_id: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=128,
            description="Your id of this call: made again with it, the call returns its first answer.",
        ),
    ] = None


class NextStep(Model):
    """A call that leads on. `supply` names what only the client or the person can give."""

    tool: str
    arguments: dict[str, Any] = {}
    supply: dict[str, str] = {}


class Response(Model):
    """The base of every operation's response: status first, then what to do next."""

    message: Annotated[str, Field(description="What happened, in a sentence.")]
    journal_record: Annotated[int | None, Field(description="The journal record that holds this.")] = None
    warnings: list[str] = []
    next: list[NextStep] = []


RequestT = TypeVar("RequestT", bound=Request)
ResponseT = TypeVar("ResponseT", bound=Response)
Handler = Callable[[RequestT, Context], ResponseT]
Replay = Callable[[RequestT, Context, ResponseT], ResponseT]


class Effect(StrEnum):
    """What an operation may touch. Lock, journal and MCP annotations follow from it."""

    READ = "read"
    """Reads the project: no lock, no journal record, nothing written."""

    STORE = "store"
    """Changes records under `.atk/` (and ATK's own refs), nothing of the user's."""

    WORKTREE = "worktree"
    """Like `STORE`, and changes files of the worktree or moves the branch."""

    RUN = "run"
    """Like `STORE`, and starts the target agent: an open world."""


@dataclass(frozen=True)
class Example:
    """A call worth showing. The reference page prints it and a test checks that it validates."""

    summary: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Operation(Generic[RequestT, ResponseT]):
    """A named, typed thing that ATK can do."""

    name: str
    group: str
    description: str
    request: type[RequestT]
    response: type[ResponseT]
    effect: Effect
    idempotent: bool
    raises: tuple[type[AtkError], ...]
    examples: tuple[Example, ...]
    handler: Handler[RequestT, ResponseT]
    replay: Replay[RequestT, ResponseT] | None
    reads_without: tuple[str, ...] = ()
    """Arguments without which a call changes nothing. Empty where every call may, or none."""

    def reads(self, request: Request) -> bool:
        """Whether a call with this request leaves everything as it is."""
        if self.effect is Effect.READ:
            return True
        return bool(self.reads_without) and not any(getattr(request, name) for name in self.reads_without)

    @property
    def summary(self) -> str:
        """The description's first line."""
        return self.description.splitlines()[0]

    @property
    def title(self) -> str:
        """The name as words, for people."""
        return self.name.replace("_", " ").capitalize()


def operation(  # noqa: PLR0913 - an operation has that many sides
    *,
    effect: Effect,
    idempotent: bool = False,
    raises: tuple[type[AtkError], ...] = (),
    examples: tuple[Example, ...] = (),
    replay: Replay[Any, Any] | None = None,
    reads_without: tuple[str, ...] = (),
) -> Callable[[Handler[RequestT, ResponseT]], Operation[RequestT, ResponseT]]:
    """Turns a handler into an `Operation`.

    The name comes from the function, the group from its folder, the description from
    its docstring, and both models from its annotations. `replay` brings a recorded
    response up to date when a `request_id` is repeated. `reads_without` names the arguments
    without which a call only reads, so that a server that changes nothing can offer the rest.

    Raises:
        TypeError: The handler is not named after its module, or has no docstring.
    """

    def define(handler: Handler[RequestT, ResponseT]) -> Operation[RequestT, ResponseT]:
        group, name = handler.__module__.split(".")[-2:]
        if handler.__name__ != name or not handler.__doc__:
            raise TypeError(f"{handler.__module__} must define a function {name!r} with a docstring.")
        hints = get_type_hints(handler)
        return Operation(
            name=name,
            group=group,
            description=inspect.cleandoc(handler.__doc__),
            request=hints["request"],
            response=hints["return"],
            effect=effect,
            idempotent=idempotent or effect is Effect.READ,
            raises=raises,
            examples=examples,
            handler=handler,
            replay=replay,
            reads_without=reads_without,
        )

    return define


_REPEATED = 1_500
"""Bytes of arguments that a refusal repeats in what leads on; longer ones are the caller's to repeat."""


def repeated(arguments: Mapping[str, Any], *, but: Collection[str] = ()) -> dict[str, Any]:
    """Returns those arguments that a further call of the same operation begins with, as far as they are short."""
    found: dict[str, Any] = {}
    room = _REPEATED
    for name, value in arguments.items():
        size = len(json.dumps([name, value], default=str))
        if name not in but and size <= room:
            found[name] = value
            room -= size
    return found


def steps(*calls: NextCall) -> list[NextStep]:
    """Returns calls as the `next` of a response."""
    return [NextStep(tool=c.tool, arguments=dict(c.arguments), supply=dict(c.supply)) for c in calls]
