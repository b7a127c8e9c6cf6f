"""Operations that do nothing useful, to test the edge with, and a stdio server that offers them."""

from __future__ import annotations

import os
import sys
import threading
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import Field

from operations.context import Context
from operations.definition import Effect, Example, Model, NextStep, Operation, Request, Response, WriteRequest
from storage.errors import AtkError, NextCall


class CasesMissing(AtkError):
    """There are no Cases."""

    message = "There are no Cases in {dataset_id}: give at least 1."
    next_calls = (NextCall("get_status"), NextCall("store_dataset", {"name": "{dataset_id}"}, {"cases": "the tasks"}))

    def __init__(self, *, dataset_id: str) -> None:
        self.dataset_id = dataset_id
        super().__init__()

    @property
    def facts(self) -> dict[str, Any]:
        return {"dataset_id": self.dataset_id}


class StatusRequest(Request):
    length: Annotated[int, Field(ge=0, le=100_000, description="How many lines to answer with.")] = 2


class StatusResponse(Response):
    lines: list[str] = []
    note: str | None = None


class Part(Model):
    """One part of a plan."""

    title: Annotated[str, Field(min_length=1, max_length=80, description="The part's heading.")]
    weight: Annotated[float | None, Field(gt=0, description="Its share.")] = None


class StoreRequest(WriteRequest):
    cases: Annotated[list[dict[str, Any]], Field(description="The Cases.")]
    usage: Annotated[Literal["optimization", "protection"], Field(description="What they are for.")] = "optimization"
    parts: Annotated[tuple[Part, ...], Field(max_length=3, description="The plan.")] = ()
    expected: Annotated[Any, Field(description="Any answer.")] = None


class StoreResponse(Response):
    dataset_id: str
    echo: dict[str, Any]


class WaitRequest(Request):
    steps: Annotated[int, Field(ge=0, description="Progress to report before the waiting.")] = 0
    forever: Annotated[bool, Field(description="Wait until the call is given up.")] = False


class WaitResponse(Response):
    pass


ended = threading.Event()
"""Set when a waiting call has noticed that it was given up."""


def get_status(request: StatusRequest, context: Context) -> StatusResponse:
    """Says how things are."""
    del context
    lines = [f"line {i}" for i in range(request.length)]
    return StatusResponse(message="All is well.", lines=lines, next=[NextStep(tool="store_dataset")])


def store_dataset(request: StoreRequest, context: Context) -> StoreResponse:
    """Stores Cases."""
    del context
    if not request.cases:
        raise CasesMissing(dataset_id="dataset-1")
    if request.expected == "crash":
        raise RuntimeError("api_key=sk-proj-abcdefghijklmnopqrstuvwx0123456789ABCDEF")
    return StoreResponse(message="Stored.", dataset_id="dataset-1", echo=request.cases[0], journal_record=7)


def wait_for_batch(request: WaitRequest, context: Context) -> WaitResponse:
    """Waits."""
    print("a stray print must not reach the client")  # noqa: T201 - this is what is tested
    for step in range(request.steps):
        context.progress(step + 1, request.steps, f"step {step + 1}")
        context.progress(step + 1, request.steps, "said twice")
    pause = threading.Event()
    while request.forever and not context.cancelled():
        pause.wait(0.01)
    ended.set()
    sys.stderr.write("noticed\n" if context.cancelled() else "done\n")
    sys.stderr.flush()
    return WaitResponse(message="Waited.")


def _operation(handler: Any, request: type, response: type, effect: Effect) -> Operation[Any, Any]:
    return Operation(
        name=handler.__name__,
        group="toys",
        description=handler.__doc__,
        request=request,
        response=response,
        effect=effect,
        idempotent=effect is Effect.READ,
        raises=(CasesMissing,),
        examples=(Example("One.", {}),),
        handler=handler,
        replay=None,
    )


OPERATIONS = {
    "get_status": _operation(get_status, StatusRequest, StatusResponse, Effect.READ),
    "store_dataset": _operation(store_dataset, StoreRequest, StoreResponse, Effect.STORE),
    "wait_for_batch": _operation(wait_for_batch, WaitRequest, WaitResponse, Effect.READ),
}


if __name__ == "__main__":
    from atk_mcp import snapshot, toolsets
    from atk_mcp.greeting import Greeting
    from atk_mcp.pipes import Pipes

    TOOLS = snapshot.tools(OPERATIONS)
    greeting = Greeting(TOOLS, "1.2.3")
    wire = Pipes.claim(greeting if "--greet" in sys.argv else None)
    wire.start()

    import anyio

    from atk_mcp.calls import Calls
    from atk_mcp.server import build_server, serve

    calls = Calls()
    server = build_server(OPERATIONS, offer=toolsets.offer(TOOLS, {}), calls=calls)
    server.version = "1.2.3"
    if "--late" in sys.argv:  # stands only once the client has been greeted
        threading.Event().wait(0.3)
    anyio.run(partial(serve, server, calls, wire, greeting, ready=lambda: None))
    os._exit(0)
