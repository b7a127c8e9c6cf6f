"""Tells a journal in lines: what each record did, and what became of an intent or a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Body = Mapping[str, Any]


def lines(bodies: Iterable[Body]) -> Iterator[str]:
    """Yields a line for each record, and at the end one for each intent or run that has no end yet.

    Args:
        bodies: What every record says, oldest first and from the first one: an end names only what it ends.
    """
    opened: dict[Any, Body] = {}
    for body in bodies:
        begun = opened.pop(body.get("intent") or body.get("batch_id"), None)
        if body["kind"] == "intent":
            opened[body["n"]] = body
        elif body["kind"] == "run_started":
            opened[body["run"]["batch_id"]] = body
        what = body.get("op") or body["kind"]
        yield f"{body['n']:>5}  {body['at']}  {what}  {_told(body, begun)}".rstrip().replace("\n", " ")
    for body in opened.values():
        yield f"       open since record {body['n']}: {body['op']}{_about(body)}; `atk status` says whether it goes on"


def _told(body: Body, begun: Body | None) -> str:
    """Returns what happened: of an ending, how, of which record and about which objects; else what was answered."""
    if body["kind"] in ("done", "undone"):
        told = f"{body['kind']}: record {body['intent']}{_about(begun) if begun else ''}"
        told += ", by recovery" if body.get("recovered") else ""
        told += ", every file left as it is" if body.get("left_as_is") else ""
        return told + (f"; {body['reason']}" if body.get("reason") else "")
    if body["kind"] == "run_sealed":
        return "sealed: " + (f"record {begun['n']}; " if begun else "") + _sealed(body)
    response = body.get("response")
    return str(response.get("message", "")) if isinstance(response, Mapping) else ""


def _sealed(body: Body) -> str:
    batch = body["objects"]["batch"][body["batch_id"]]
    counts = ", ".join(f"{count} {outcome}" for outcome, count in batch["counts"].items() if count)
    why = f" ({batch['end_reason']})" if batch.get("end_reason") else ""
    return f"{body['batch_id']} is {batch['status']}{why}: {counts or 'no attempt'}"


def _about(body: Body) -> str:
    """Returns the ids of the objects that a record made or changed."""
    ids = [found for objects in body.get("objects", {}).values() for found in objects]
    return f" ({', '.join(ids)})" if ids else ""
