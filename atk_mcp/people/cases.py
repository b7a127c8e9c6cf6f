"""`atk cases` and `atk diff`: the attempts of a batch, and how two runs or two attempts differ."""

from __future__ import annotations

import argparse
from collections import defaultdict
from typing import Any

from atk_mcp.people.attempts import (
    as_text,
    cases_of,
    current_assessments,
    found_record,
    of_batch,
    output_of,
    value_of,
    verdicts,
)
from atk_mcp.people.tables import as_json, console, table
from atk_mcp.terminal import complain, say
from operations.reports.differences import side_by_side
from operations.wording import counted
from storage.project import Project
from storage.projection import State
from storage.schema.assessments import Assessment
from storage.schema.batches import Batch


def cases(given: argparse.Namespace, root: str) -> int:
    """Prints the attempts of a batch with the verdicts of its newest Assessment; failed ones with what is right.

    Raises:
        UnknownObject: There is no such batch.
    """
    if given.first < 1:
        complain("atk: --first takes a number from 1 up.")
        return 2
    project = Project.open(root)
    state = project.state()
    judged = current_assessments(state, given.batch_id)
    known = verdicts(project, state, judged[-1]) if judged else {}
    asked = cases_of(project, state, given.batch_id)
    rows: list[dict[str, Any]] = []
    left_out = 0
    for record in of_batch(project, state, given.batch_id):
        one = _attempt(record, known.get(record["id"], {}))
        wrong = one["status"] not in ("completed", "unknown") or set(one["verdicts"].values()) & {"fail", "unknown"}
        if (given.failed and not wrong) or (given.case is not None and one["case"] != given.case):
            continue
        if len(rows) == given.first:
            left_out += 1
            continue
        right = asked[one["case"]].expected if one["case"] in asked else value_of(record, "expected")
        rows.append({**one, "expected": None if right is None or "sealed" in record else as_text(right)})
    if given.json:
        told = {"batch_id": given.batch_id, "assessment_id": judged[-1].id if judged else None}
        as_json({**told, "attempts": rows, "left_out": left_out})
        return 0
    columns = ["Case", "#Repeat", "Status", "Verdicts", "Record", "Output", *(["Expected"] if given.failed else [])]
    shown = [{**r, "verdicts": " ".join(f"{d}:{v}" for d, v in r["verdicts"].items()), "record": r["id"]} for r in rows]
    lines = [[r[name.lower().removeprefix("#")] for name in columns] for r in shown]
    title = f"{given.batch_id}, judged by {judged[-1].id}" if judged else f"{given.batch_id}, not judged"
    console().print(table(columns, lines, title=title, limit=60))
    if left_out:
        say(f"and {left_out} more; --first N shows more of them")
    for line in _missing(state, given.batch_id):
        say(line)
    return 0


def _missing(state: State, batch_id: str) -> list[str]:
    """Tells of attempts that a run was to make and that nobody saw the end of."""
    batch = state.find(Batch, batch_id)
    if batch is None or not batch.missing_record_ids:
        return []
    unknown = len(batch.unknown_record_ids)
    told = f"{len(batch.missing_record_ids)} of {counted(batch.slots, 'attempt')} missing"
    told += f", {unknown} of them of unknown end" if unknown else ""
    successor = next((b.id for b in state.all(Batch) if b.supersedes_batch_id == batch_id), None)
    return [f"{told}; {f'{successor} goes on with it' if successor else f'`atk run {batch_id}` goes on with it'}"]


def _attempt(record: dict[str, Any], known: dict[str, str]) -> dict[str, Any]:
    execution = record.get("execution") or {}
    source = record.get("source") or {}
    return {
        "id": record["id"],
        "case": record.get("case_id") or source.get("trace_id") or record["id"],
        "repeat": record.get("repeat") or 1,
        "status": execution.get("status") or (record.get("log") or {}).get("state", "unknown"),
        "verdicts": known,
        "output": output_of(record),
    }


def diff(given: argparse.Namespace, root: str) -> int:
    """Prints how two runs differ by Case, or two attempts by line. Returns 1 where they differ, as `diff` does.

    Raises:
        UnknownObject: One of them is not there.
    """
    project = Project.open(root)
    state = project.state()
    sides = [_assessment(state, name) for name in (given.left, given.right)]
    if sides[0] is not None and sides[1] is not None:
        return _by_case(project, state, (sides[0], sides[1]), as_json_=given.json)
    if any("." not in name for name in (given.left, given.right)):
        complain("atk: a diff is of two assessed batches, two Assessments or two Records; assess the batches first.")
        return 2
    return _by_line(project, given)


def _assessment(state: State, name: str) -> Assessment | None:
    """Returns the Assessment of a name, or the newest one of the batch of that name."""
    found = state.find(Assessment, name)
    judged = current_assessments(state, name)
    return found or (judged[-1] if judged else None)


def _by_case(project: Project, state: State, sides: tuple[Assessment, Assessment], *, as_json_: bool) -> int:
    left, right = (_passes(project, state, side) for side in sides)
    rows = []
    for key in dict.fromkeys((*left, *right)):
        before, after = left.get(key, (0, 0)), right.get(key, (0, 0))
        if before != after:
            rows.append((*key, _share(before), _share(after), _moved(before, after)))
    rows.sort(key=lambda row: (row[-1] != "regressed", row[-1] != "fixed", row))
    if as_json_:
        names = ("case", "dimension", "before", "after", "moved")
        as_json([dict(zip(names, row, strict=True)) for row in rows])
    elif not rows:
        say("They do not differ.")
    else:
        title = f"{sides[0].batch_id} ({sides[0].id}) → {sides[1].batch_id} ({sides[1].id})"
        console().print(table(("Case", "Dimension", "Before", "After", "Moved"), rows, title=title))
    return 1 if rows else 0


def _passes(project: Project, state: State, side: Assessment) -> dict[tuple[str, str], tuple[int, int]]:
    """Returns Case and dimension → passes and known outcomes."""
    known = verdicts(project, state, side)
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for record in of_batch(project, state, side.batch_id):
        case = str(_attempt(record, {})["case"])
        for dimension, verdict in known.get(record["id"], {}).items():
            found[case, dimension].append(verdict)
    return {key: (v.count("pass"), v.count("pass") + v.count("fail")) for key, v in found.items()}


def _share(found: tuple[int, int]) -> str:
    return f"{found[0]}/{found[1]}" if found[1] else "not known"


def _moved(before: tuple[int, int], after: tuple[int, int]) -> str:
    if not before[1] or not after[1]:
        return "not comparable"
    change = after[0] * before[1] - before[0] * after[1]
    return "fixed" if change > 0 else "regressed" if change < 0 else "as often"


def _by_line(project: Project, given: argparse.Namespace) -> int:
    left, right = (output_of(found_record(project, name)) for name in (given.left, given.right))
    pairs = side_by_side(left, right)
    if given.json:
        as_json([{"left": p.left, "right": p.right, "kind": p.kind} for p in pairs])
    else:
        console().print(table((given.left, given.right, ""), [(p.left, p.right, p.kind) for p in pairs], limit=400))
    return int(any(p.kind != "same" for p in pairs))
