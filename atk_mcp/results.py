"""A response, a refusal or a crash as the result of a tool call, in at most 8,000 bytes.

The result is a plain mapping in MCP's wire form, so that the inspector can use it without MCP.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from atk_mcp.fitting import fit
from storage.errors import AtkError, NextCall

if TYPE_CHECKING:
    from pydantic import BaseModel

LIMIT = 8_000
"""Bytes of a result's JSON. Clients cut at 12,000 bytes or more, in the middle, and break the JSON."""

MESSAGE_LIMIT = 2_000
"""Characters of an error's message: what was given may be long, and an error has to be read."""

_FACTS_LIMIT = 4_000
_HIDDEN = re.compile(
    "[\u200b\u2060-\u2064\ufeff"  # of no width, but for the joiners that scripts and emoji need
    "\u202a-\u202e\u2066-\u2069"  # overrides of the writing direction
    "\U000e0000-\U000e007f\U000e0100-\U000e01ef]"  # tags and variation selectors, which can spell out a text
)
_LAST = ("warnings", "journal_record", "next")


class OversizedResult(RuntimeError):
    """An operation's response does not fit a result: the operation has to page or shorten it."""


def payload(response: BaseModel) -> dict[str, Any]:
    """Returns a response as JSON values: its message first, `next` last, no unset optional fields."""
    dumped = _without_unset(response, response.model_dump(mode="json"))
    first = {"message": dumped.pop("message")} if "message" in dumped else {}
    last = {name: dumped.pop(name) for name in _LAST if name in dumped}
    if not last.get("warnings"):
        last.pop("warnings", None)
    clean: dict[str, Any] = safe({**first, **dumped, **last})
    return clean


def of_response(response: BaseModel, *, strict: bool = False) -> dict[str, Any]:
    """Returns a response as a tool result. One that is too long is cut, and says what was left out.

    Raises:
        OversizedResult: The response is too long and `strict` asks for that to be loud.
    """
    whole = payload(response)
    if strict and (size := len(compact(whole).encode())) > LIMIT:
        raise OversizedResult(f"{type(response).__name__} takes {size} bytes of JSON; at most {LIMIT} are allowed.")
    return _result(fit(whole, LIMIT, keep=("message", "next")))


def refusal(error: AtkError) -> dict[str, Any]:
    """Returns the structure of a refusal: `code`, `message`, `facts`, `next`."""
    return _refusal(error.code, str(error), error.facts, error.next)


def of_error(error: AtkError) -> dict[str, Any]:
    """Returns a refusal as a failed tool result that the agent can act on."""
    return _failed(refusal(error), error.next)


def incident(incident_id: str, operation: str) -> dict[str, Any]:
    """Returns the structure that tells of a crash: never its text, never its stack."""
    message = (
        f"ATK failed inside {operation}; this is a fault of ATK, not of the call. It is on record as {incident_id}. "
        "Nothing is lost: ask for the status, then repeat the call with the same request_id if it is not done."
    )
    return _refusal("internal_error", message, {"incident_id": incident_id, "operation": operation}, _AFTER_CRASH)


def of_incident(incident_id: str, operation: str) -> dict[str, Any]:
    """Returns a crash as a failed tool result."""
    return _failed(incident(incident_id, operation), _AFTER_CRASH)


def _in_words(calls: Sequence[NextCall]) -> str:
    """Returns the calls that lead on as one sentence, or nothing."""
    return f"Next: {'; or '.join(_call(c) for c in calls)}." if calls else ""


def compact(value: object) -> str:
    """Returns `value` as JSON without spaces, in its own script."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def safe(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Returns `value` so that it can be written as UTF-8 JSON and hides nothing: no lone surrogates, no infinities.

    A character that a person does not see and a model reads is written as its number, such as `{U+E0063}`: evidence
    may hold orders in such letters. The store keeps it as it is.
    """
    if isinstance(value, str):
        return _HIDDEN.sub(lambda found: f"{{U+{ord(found[0]):04X}}}", value.encode("utf-8", "replace").decode())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {safe(str(k)): safe(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [safe(x) for x in value]
    return value


_AFTER_CRASH = (NextCall("get_status"),)


def _refusal(code: str, message: str, facts: Mapping[str, Any], calls: Sequence[NextCall]) -> dict[str, Any]:
    if len(message) > MESSAGE_LIMIT:
        message = message[: MESSAGE_LIMIT - 1] + "…"
    structure = {"code": code, "message": message, "facts": dict(facts), "next": [_step(c) for c in calls]}
    clean: dict[str, Any] = safe(structure)
    clean["facts"] = fit(clean["facts"], _FACTS_LIMIT)
    return fit(clean, LIMIT, keep=("code", "message"))


def _failed(structure: dict[str, Any], calls: Sequence[NextCall]) -> dict[str, Any]:
    words = f"Error [{structure['code']}] {structure['message']} {_in_words(calls)}".rstrip()
    text = safe(words).encode()[:LIMIT].decode("utf-8", "ignore")
    return {"content": [{"type": "text", "text": text}], "structuredContent": structure, "isError": True}


def _result(structure: dict[str, Any]) -> dict[str, Any]:
    text = compact(structure)
    return {"content": [{"type": "text", "text": text}], "structuredContent": structure, "isError": False}


def _step(call: NextCall) -> dict[str, Any]:
    step: dict[str, Any] = {"tool": call.tool, "arguments": dict(call.arguments)}
    return step | ({"supply": dict(call.supply)} if call.supply else {})


def _call(call: NextCall) -> str:
    given = ", ".join(f"{k}={compact(safe(v))}" for k, v in call.arguments.items())
    wanted = "; ".join(f"{k}: {v}" for k, v in call.supply.items())
    return call.tool + (f" with {given}" if given else "") + (f" (you supply {wanted})" if wanted else "")


def _without_unset(model: object, dumped: Any) -> Any:  # noqa: ANN401 - walks any JSON value beside its model
    """Drops the fields of models that are null and need not be there; what users stored keeps its nulls."""
    fields = getattr(type(model), "model_fields", None)
    if fields is not None and isinstance(dumped, dict):
        return {
            name: _without_unset(getattr(model, name, None), value)
            for name, value in dumped.items()
            if value is not None or name not in fields or fields[name].is_required()
        }
    if isinstance(model, list | tuple) and isinstance(dumped, list) and len(model) == len(dumped):
        return [_without_unset(m, d) for m, d in zip(model, dumped, strict=True)]
    if isinstance(model, Mapping) and isinstance(dumped, dict) and len(model) == len(dumped):
        return {k: _without_unset(m, d) for m, (k, d) in zip(model.values(), dumped.items(), strict=True)}
    return dumped
