"""The one way to run an operation: the server, the inspector and the tests all come through here."""

from __future__ import annotations

import errno
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from operations import mistakes
from operations.confirming import Ask, NeedsConfirmation, NotConfirmed, leave_open
from operations.context import Context
from operations.definition import Operation, RequestT, ResponseT, repeated
from operations.execution.sweeping import sweep_dead
from storage.errors import AtkError, NextCall
from storage.masking import KEY_BYTES, Masker, PatternEngineMissing
from storage.project import Project, ProjectNotInitialized, StorageFailed
from storage.transaction import Call, Replayed

_PROBLEMS = 8
"""How many mistakes one refusal tells."""


@dataclass(kw_only=True, eq=False)
class InvalidArguments(AtkError):
    """The arguments do not fit the operation's schema. Nothing was done."""

    message = "{operation}: {problems}."
    next_calls = (NextCall("{operation}", supply={"arguments": "corrected as the message says"}),)

    operation: str
    problems: list[str]
    given: dict[str, Any] = field(default_factory=dict)
    """The arguments that nothing is wrong with, as far as they are short."""

    @property
    def next(self) -> tuple[NextCall, ...]:
        """The same call, so that only what is wrong has to be given again."""
        return tuple(replace(call, arguments=self.given) for call in super().next)

    def worded(self, template: str) -> str:
        """Each problem may have commas of its own, so semicolons stand between them."""
        shown, left = self.problems[:_PROBLEMS], len(self.problems) - _PROBLEMS
        told = "; ".join([*shown, *([f"and {left} more"] if left > 0 else [])])
        return template.format(operation=self.operation, problems=told)


@dataclass(kw_only=True, eq=False)
class FolderMissing(AtkError):
    """`project_path` is not a folder."""

    message = "project_path {given!r} is not a folder. Give an existing folder, absolute or below the working folder."
    next_calls = (NextCall("get_status", supply={"project_path": "an existing folder"}),)

    given: str


def invoke(  # noqa: PLR0913 - each is a way back to whoever calls
    operation: Operation[RequestT, ResponseT],
    arguments: Mapping[str, Any],
    *,
    progress: Callable[[float, float | None, str], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
    stays: bool = False,
    handle: str | None = None,
    ask: Ask | None = None,
) -> ResponseT:
    """Validates `arguments` and runs the handler.

    `progress` is called with (done, total or None, note); `cancelled` is asked now and then;
    `stays` says that the caller waits until a run has ended; `handle` is the id under which others follow the call;
    `ask` puts a question to the person behind the call, where there is one.

    No credential that a caller sent comes back: neither in the response nor in the error's facts.

    Raises:
        AtkError: The operation declined; the error's facts and `next` say why and what to do.
    """
    try:
        response = _invoke(
            operation, arguments, progress=progress, cancelled=cancelled, stays=stays, handle=handle, ask=ask
        )
    except AtkError as error:
        masker = _masker(arguments)
        for fact in fields(error):
            setattr(error, fact.name, _masked(masker.own_text, getattr(error, fact.name)))
        raise
    masker = _masker(arguments, whole=True)
    shown = response.model_dump(mode="json")
    if masker.own_rules:
        return operation.response.model_validate_json(json.dumps(masker.record(response)))
    if _masked(_STRANGER.text, shown) == shown:
        return response
    return operation.response.model_validate_json(json.dumps(_masked(masker.text, shown)))


_STRANGER = Masker(bytes(KEY_BYTES))
"""Finds credentials where no project's key is needed to mask them, or none is to be had."""


def _masker(arguments: Mapping[str, Any], *, whole: bool = False) -> Masker:
    """Returns the project's masker; where there is none, one that knows what every project masks.

    Raises:
        PatternEngineMissing: With `whole`, the project has rules of its own that cannot be applied.
    """
    given = arguments.get("project_path")
    try:
        return Project.open(_root(given if isinstance(given, str) else None)).masker
    except PatternEngineMissing:
        if whole:
            raise
        return Masker(os.urandom(KEY_BYTES))
    except (AtkError, OSError):
        return Masker(os.urandom(KEY_BYTES))


def _masked(masked: Callable[[str], str], value: Any) -> Any:  # noqa: ANN401 - a fact or a JSON value
    """Returns `value` with the credentials in its texts masked; it keeps its shape and the names in it."""
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, Mapping):
        return {k: _masked(masked, v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_masked(masked, v) for v in value)
    return value


def _invoke(  # noqa: PLR0913 - as above
    operation: Operation[RequestT, ResponseT],
    arguments: Mapping[str, Any],
    *,
    progress: Callable[[float, float | None, str], None] | None,
    cancelled: Callable[[], bool] | None,
    stays: bool,
    handle: str | None,
    ask: Ask | None,
) -> ResponseT:
    request = _validated(operation, arguments)
    root = _root(request.project_path)
    request_id = getattr(request, "request_id", None)
    if request_id is not None and _STRANGER.changed(request_id):
        problem = "request_id: it holds a credential, and is kept as it is; choose another one"
        raise InvalidArguments(operation=operation.name, problems=[problem])
    given = {k: v for k, v in arguments.items() if k not in _HOW}
    extra: dict[str, Any] = {k: v for k, v in (("progress", progress), ("cancelled", cancelled)) if v is not None}
    context = Context(
        root=root,
        now=_now(),
        call=Call(operation=operation.name, arguments=given, request_id=request_id, at=_now().isoformat()),
        stays=stays,
        handle=handle,
        can_ask=ask is not None,
        **extra,
    )
    try:
        if request_id is not None:
            with suppress(ProjectNotInitialized):
                Project.open(root).check_replay(context.call)
        if not operation.reads(request):
            with suppress(AtkError):  # the handler comes to the same and says it
                sweep_dead(Project.open(root))
        return _with_consent(operation, request, context, ask)
    except Replayed as found:
        recorded = operation.response.model_validate_json(json.dumps(found.response))
        return operation.replay(request, context, recorded) if operation.replay else recorded
    except OSError as error:
        raise StorageFailed.of(error, root, *_scratch()) from error
    except MemoryError as error:
        raise StorageFailed.of(OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))) from error


def _scratch() -> list[str]:
    """The folder for temporary files, if there is any."""
    try:
        return [tempfile.gettempdir()]
    except FileNotFoundError:
        return []


def _with_consent(
    operation: Operation[RequestT, ResponseT], request: RequestT, context: Context, ask: Ask | None
) -> ResponseT:
    """Runs the handler; where it needs a person's word, asks for it while nothing is locked and runs it again."""
    while True:
        try:
            return operation.handler(request, context)
        except NeedsConfirmation as needed:
            question = needed.question
            said = ask(question) if ask is not None else None
            if said == "accept" and not context.cancelled():
                context = replace(context, confirmed=context.confirmed | {question.digest})
                continue
            known = leave_open(context.project, question, context.timestamp)
            how = {None: "this client has no way to ask one", "decline": "it was declined", "cancel": "nobody answered"}
            raise NotConfirmed(
                operation=operation.name,
                approval_id=known.id,
                answer=how.get(said, "the call was given up"),
                question=known.question,
            ) from None


_HOW = frozenset({"project_path", "request_id", "wait_seconds"})
"""Arguments that say where, under which name and how patiently a call is made, not what it does."""


def _root(given: str | None) -> str:
    try:
        root = os.path.realpath(os.path.expanduser(given or os.getcwd()))
    except ValueError:  # no path can hold a NUL character
        raise FolderMissing(given=str(given)) from None
    except FileNotFoundError:
        raise FolderMissing(given="(the folder in which ATK was started)") from None
    if not os.path.isdir(root):
        raise FolderMissing(given=str(given))
    return root


def _validated(operation: Operation[RequestT, ResponseT], arguments: Mapping[str, Any]) -> RequestT:
    try:
        # JSON mode: arrays may become tuples and text enums, while "3" stays no number and 1 no boolean.
        text = json.dumps(dict(arguments), allow_nan=False)
    except RecursionError:
        raise InvalidArguments(operation=operation.name, problems=["the arguments are nested too deep"]) from None
    except ValueError:
        problem = "NaN, infinity and integers of thousands of digits are no numbers here"
        raise InvalidArguments(operation=operation.name, problems=[problem]) from None
    try:
        return operation.request.model_validate_json(text)
    except ValidationError as error:
        wrong = {str(mistake["loc"][0]) for mistake in error.errors(include_url=False) if mistake["loc"]}
        raise InvalidArguments(
            operation=operation.name,
            problems=mistakes.problems(operation.request, error),
            given=repeated(arguments, but=wrong),
        ) from None


def _now() -> datetime:
    return datetime.now(UTC)
