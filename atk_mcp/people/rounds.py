"""`atk rounds` and `atk show`: every Round in a line, and any stored object as a person reads it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from itertools import chain
from typing import Any

from atk_mcp.people.tables import as_json, console, table, text
from atk_mcp.results import payload
from atk_mcp.terminal import indented, say
from operations.invocation import invoke
from operations.registry import all_operations
from operations.tuning import budget
from storage.project import Project
from storage.projection import State
from storage.schema.batches import Batch
from storage.schema.candidates import Candidate
from storage.schema.rounds import Round
from storage.schema.validations import ExternalValidation, Validation


def rounds(given: argparse.Namespace, root: str) -> int:
    """Prints every Round, oldest first."""
    state = Project.open(root).state()
    found = [_round(value, state) for value in state.all(Round)]
    if given.json:
        as_json(found)
    elif not found:
        say("There is no Round yet.")
    else:
        names = ("Round", "Status", "Opened", "Candidates", "Kept", "Newest result", "Executions")
        console().print(table(names, [list(row.values()) for row in found]))
    return 0


def _round(value: Round, state: State) -> dict[str, Any]:
    results = [v.result for v in state.all(ExternalValidation) if v.round_id == value.id]
    results += [v.result for v in state.all(Validation) if v.round_id == value.id]  # a Round has those of one kind
    spent = ""
    if value.plan is not None:
        now = budget.account(value, value.plan, state.all(Batch))
        spent = f"{now.used} of {now.limit}"
    return {
        "round_id": value.id,
        "status": value.status,
        "opened": value.created_at[:16].replace("T", " "),
        "candidates": sum(c.round_id == value.id for c in state.all(Candidate)),
        "kept": len(value.accepted_candidate_ids),
        "result": results[-1] if results else None,
        "executions": spent,
    }


def show(given: argparse.Namespace, root: str) -> int:
    """Prints an object or a field of it, page after page to its end; as JSON, the pages put together."""
    asked: dict[str, Any] = {"project_path": root, "record_id": given.record_id}
    if given.field:
        asked["field"] = given.field
    answer = payload(invoke(all_operations()["read_record"], asked))
    if given.json:
        whole = answer["value"]
        for page in _further(asked, answer["next_cursor"]):
            whole = {**whole, **page} if isinstance(whole, dict) else whole + page
        as_json({**answer, "value": whole, "next_cursor": None, "next": []})
        return 0
    say(answer["message"])
    pages: Iterator[Any] = chain([answer["value"]], _further(asked, answer["next_cursor"]))
    if isinstance(answer["value"], str):  # its pages end within lines
        pages = iter(["".join(pages)])
    for page in pages:
        _shown(page)
    return 0


def _further(asked: dict[str, Any], cursor: str | None) -> Iterator[Any]:
    """Yields the values of the pages from `cursor` on."""
    while cursor is not None:
        answer = payload(invoke(all_operations()["read_record"], {**asked, "cursor": cursor}))
        yield answer["value"]
        cursor = answer["next_cursor"]


def _shown(value: Any) -> None:  # noqa: ANN401 - any JSON
    if isinstance(value, dict):
        width = max(map(len, value), default=0)
        for name, found in value.items():
            say(f"  {name:{width}}  {_line(found)}")
    elif isinstance(value, list):
        for found in value:
            say(f"  {_line(found)}")
    else:
        console().print(text(value))


def _line(value: Any) -> str:  # noqa: ANN401 - any JSON
    return indented(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
