"""What failure detectors find in stored Records, and whether a finding that somebody cites is one."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from operations.importers import _record_facts as facts
from operations.importers.batches import BatchHasNoRecords, Evidence, evidence_of
from operations.importers.event_logs import LogNotWhole, log_of
from operations.importers.stored import number_in
from operations.trajectories.detectors import DETECTORS, Budget, Detector, Episode, Result
from operations.trajectories.detectors.words import text_of
from storage.holdout import Showing
from storage.project import Project
from storage.projection import State, UnknownObject

Tools = Mapping[str, Mapping[str, Any] | None]

NAMES = tuple(detector.name for detector in DETECTORS)

_NAMED, _SHOWN = 3, 80
"""Findings that a refusal names, and characters of one that was made up."""

_FINDING = re.compile(r"([a-z_]+)\.(\d{1,6})/(\d{1,12})-(\d{1,12})(?:/(calls|tokens)=(\d{1,15}))?")
"""Detector, version of its rule, first and last event, and the limit of a budget."""


@dataclass(frozen=True)
class Looked:
    """What the detectors say of one Record; nothing where it stays unseen or its log cannot be used."""

    record: Mapping[str, Any]
    results: tuple[Result, ...] = ()
    unseen: bool = False
    problem: str | None = None


def looked_at(
    evidence: Evidence,
    records: Iterator[dict[str, Any]],
    *,
    detectors: Collection[str] = NAMES,
    tools: Tools | None = None,
    budget: Budget | None = None,
) -> Iterator[Looked]:
    """Yields what the detectors say of Records of one batch, one at a time.

    A Record of a holdout Case stays unseen until its Round has run it, and where the key is not here.
    """
    chosen = [detector for detector in DETECTORS if detector.name in detectors]
    showing = Showing(evidence.project, evidence.state)
    for stored in records:
        shown = showing.record(stored)
        if "sealed" in shown:
            yield Looked(shown, unseen=True)
            continue
        try:
            episode = episode_of(shown, evidence.inputs, tools=tools, budget=budget)
        except LogNotWhole as broken:
            yield Looked(shown, problem=str(broken))
            continue
        yield Looked(shown, tuple(detector(episode) for detector in chosen))


def episode_of(
    record: Mapping[str, Any], inputs: Mapping[str, Any], *, tools: Tools | None = None, budget: Budget | None = None
) -> Episode:
    """Returns a Record as the detectors read it: its log, and the input and output that are kept beside that.

    Raises:
        LogNotWhole: The log of an import is not what this version stores.
    """
    asked, output = (facts.content(record, name, inputs) for name in ("input", "output"))
    return Episode(
        log_of(record),
        tools=tools,
        budget=budget,
        asked=() if asked is facts.UNKNOWN else (text_of(asked),),
        answered=None if output is facts.UNKNOWN else text_of(output),
    )


def split(evidence_id: str) -> tuple[str, str | None]:
    """Returns the Record that a citation names, and the finding in it where it names one."""
    record_id, slash, finding = evidence_id.partition("/")
    return record_id, finding if slash else None


def problems(project: Project, state: State, cited: Collection[tuple[str, str, str]]) -> dict[str, str]:
    """Returns for cited findings what is wrong with them; those that hold are not in it.

    Each is found again: the detector of that version has to find it in the Record as it is stored, with what the log
    itself says of the tools.

    Args:
        project: Whose Records they are.
        state: In which the batches are looked up.
        cited: Batch, Record and finding of each.
    """
    found: dict[str, str] = {}
    for batch_id in dict.fromkeys(batch_id for batch_id, _, _ in cited):
        wanted = [(record_id, finding) for of, record_id, finding in cited if of == batch_id]
        numbers = {n for record_id, _ in wanted if (n := number_in(record_id, batch_id)) is not None}
        try:
            evidence = evidence_of(project, state, batch_id)
            held = {record["id"]: record for record in evidence.records(numbers)}
        except (UnknownObject, BatchHasNoRecords) as missing:
            found |= {
                f"{of}/{finding}": f"cites {of}/{finding[:_SHOWN]}: {str(missing)[:200]}" for of, finding in wanted
            }
            continue
        for record_id, finding in wanted:
            record = held.get(record_id)
            if problem := _missing(record_id, finding) if record is None else _problem(evidence, record, finding):
                found[f"{record_id}/{finding}"] = problem
    return found


def _missing(record_id: str, finding: str) -> str:
    return f"cites {record_id}/{finding[:_SHOWN]}, and there is no such Record"


def _problem(evidence: Evidence, record: dict[str, Any], finding: str) -> str | None:
    named = _FINDING.fullmatch(finding)
    detector = next((d for d in DETECTORS if named and d.name == named.group(1)), None)
    cites = f"cites {record['id']}/{finding[:_SHOWN]}"
    if named is None or detector is None:
        form = "DETECTOR.VERSION/FIRST-LAST, as detect_failures gives it"
        return f"{cites}, and a finding is named {form}; detectors are {', '.join(NAMES)}"
    budget = Budget(**{named.group(5): int(named.group(6))}) if named.group(5) else None
    (looked,) = looked_at(evidence, iter([record]), detectors=(detector.name,), budget=budget)
    if looked.unseen:
        return f"{cites}, of an attempt at a holdout Case, which stays unseen"
    if looked.problem:
        return f"{cites}, and the log cannot be used: {looked.problem.rstrip('.')}"
    if int(named.group(2)) == detector.version and finding in {one.name for one in looked.results[0].findings}:
        return None
    return f"{cites}, which that Record does not bear out: {_holds(detector, looked.results[0])}"


def _holds(detector: Detector, result: Result) -> str:
    """Returns what there is to cite instead."""
    names = [finding.name for finding in result.findings]
    if names:
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        return f"it has {', '.join(names[:_NAMED])}{more}"
    if result.not_applicable:
        return f"{detector.name}, version {detector.version}, cannot tell, since {result.not_applicable}"
    return f"{detector.name}, version {detector.version}, finds nothing in it"


def ranges(seqs: tuple[int, ...], most: int) -> str:
    """Returns numbers of events as ranges, such as 3-8,12, the first `most` of them."""
    found: list[list[int]] = []
    for seq in seqs:
        if found and seq == found[-1][1] + 1:
            found[-1][1] = seq
        else:
            found.append([seq, seq])
    shown = ",".join(str(first) if first == last else f"{first}-{last}" for first, last in found[:most])
    return shown if len(found) <= most else f"{shown},… to {seqs[-1]}"
