"""Runs a permitted command as a judge: once for each Record, bounded in time; what goes wrong in it is unknown."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from operations.execution import command, processes
from operations.execution.attending import AttendantLost, Attending, Outcome
from operations.judges._judge import Evidence, Judgement, RuleSettings, before_comparing
from operations.tuning import probing
from operations.tuning.judging import JudgementInvalid
from storage.frames import canonical, digest
from storage.masking import has_mask
from storage.owners import Owner
from storage.project import Project
from storage.projection import State
from storage.schema.assessments import Verdict
from storage.schema.batches import Batch
from storage.schema.probes import ProbePermission
from storage.schema.projects import Project as ProjectRecord
from storage.schema.rounds import CLOSED, Round

SECONDS = 200.0
"""How long all Records of one Assessment may take together: a call answers within that."""

_REASON = 2_000
_PIN = "permission_sha256"
_NAME = "probe_authorization_id"


@dataclass(frozen=True, kw_only=True)
class CommandJudge:
    """A command that a person permitted, ready to be started."""

    permission: ProbePermission
    script: bytes | None
    environment: Mapping[str, str]
    working_directory: str


def pinned(settings: Mapping[str, Any], state: State, batch_id: str) -> dict[str, Any]:
    """Returns the settings with the digest of the permission that they name, which becomes part of the judger.

    Raises:
        JudgementInvalid: They name no permission, or say something else.
        ProbeNotPermitted: There is no such permission.
    """
    name = settings.get(_NAME)
    if not isinstance(name, str) or set(settings) - {_NAME, _PIN}:
        problem = f"settings of a command are {_NAME}, a name in probe_permissions, and nothing else"
        raise JudgementInvalid(batch_id=batch_id, field="judger", problem=problem)
    return {_NAME: name, _PIN: _digest(permission_of(settings, state, batch_id))}


def permission_of(settings: Mapping[str, Any], state: State, batch_id: str) -> ProbePermission:
    """Returns the permission that a command judge runs under: of the batch's Round or the open one, else the project's.

    Raises:
        JudgementInvalid: It is another one than the judger was stored with.
        ProbeNotPermitted: There is none of that name.
    """
    batch = state.find(Batch, batch_id)
    opened = [r for r in state.all(Round) if r.status not in CLOSED]
    own = state.find(Round, batch.round_id) if batch is not None else None
    value = own or (opened[-1] if opened else None)
    _, found = probing.permitted(str(settings[_NAME]), value, state.all(ProjectRecord)[0])
    if settings.get(_PIN, _digest(found)) != _digest(found):
        problem = f"the permission {found.id!r} is not the one that the judger was stored with; give the judger whole"
        raise JudgementInvalid(batch_id=batch_id, field="judger_id", problem=problem)
    return found


def require_payable(permission: ProbePermission, case_ids: Sequence[str], batch_id: str) -> None:
    """Refuses Records that the permission does not allow, or more of them than it pays for in one Assessment.

    Raises:
        JudgementInvalid: It says which.
    """
    strays = sorted(set(case_ids) - set(permission.case_ids)) if permission.case_ids else []
    problem = None
    if strays:
        problem = f"the permission {permission.id!r} does not allow the Case {strays[0]!r}"
    elif len(case_ids) > permission.max_calls:
        problem = f"the permission {permission.id!r} pays for {permission.max_calls} of the {len(case_ids)} calls due"
    if problem:
        raise JudgementInvalid(batch_id=batch_id, field="judger", problem=problem)


def judgements(  # noqa: PLR0913 - a judge, what it judges, and how long
    project: Project,
    judge: CommandJudge,
    given: Iterable[tuple[str, Evidence]],
    batch_id: str,
    *,
    timeout_is_failure: bool,
    cancelled: Callable[[], bool],
) -> Iterator[tuple[str, Judgement]]:
    """Yields what the command says of each Record, in order.

    The command gets `{input_file}`: JSON with input, expected, expected_present and output, masked as they are stored.
    Its last line of output is JSON with a `verdict` and perhaps a `reason`.

    Raises:
        JudgementInvalid: All together took too long, or the caller gave up.
        OSError: The disk or the system refused.
    """
    owner, until = Owner(project.store), time.monotonic() + SECONDS
    try:
        with project.scratch(owner.nonce) as folder:
            script = _copied(folder, judge)
            for number, (record_id, evidence) in enumerate(given):
                if cancelled() or time.monotonic() > until:
                    why = "was stopped" if cancelled() else f"took more than {SECONDS:.0f} seconds"
                    problem = (
                        f"the command {why} after {number} Records, and nothing was stored; send rows_file instead"
                    )
                    raise JudgementInvalid(batch_id=batch_id, field="judger", problem=problem)
                ruled = before_comparing(evidence, _NEEDS_NOTHING, timeout_is_failure=timeout_is_failure)
                yield record_id, ruled or _asked(project, judge, evidence, script, os.path.join(folder, str(number)))
    finally:
        owner.release()
        project.forget(owner.nonce)


class _NeedsNothing(RuleSettings):
    @property
    def needs_expected(self) -> bool:
        return False


_NEEDS_NOTHING = _NeedsNothing()


def _asked(project: Project, judge: CommandJudge, evidence: Evidence, script: str | None, folder: str) -> Judgement:
    masker = project.masker
    shown = {
        "input": masker.value(evidence.input),
        "expected": masker.value(evidence.expected),
        "expected_present": evidence.expected_present,
        "output": masker.text(evidence.output or ""),
        "output_truncated": evidence.output_truncated,
    }
    if has_mask(json.dumps([shown["expected"], shown["output"]])):
        return Judgement("unknown", "A masked credential is part of what would be compared.")
    os.makedirs(os.path.join(folder, "output"), 0o700)
    path = os.path.join(folder, "input.json")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w", encoding="ascii") as file:
        json.dump(shown, file)
    values = {
        "input_file": path,
        "attachments_file": os.devnull,
        "input": command.as_argument(shown["input"]),
        "output_dir": os.path.join(folder, "output"),
        "events_file": os.devnull,
        "case_id": "",
        "repeat_index": "1",
    }
    template = list(judge.permission.command)
    expanded = command.expand(template, values)
    argv = [
        script if script and part == judge.permission.script_path else filled
        for part, filled in zip(template, expanded, strict=True)
    ]
    return _read(_ended(judge, argv, folder), masker.text)


def _ended(judge: CommandJudge, argv: Sequence[str], folder: str) -> Outcome:
    """Runs the command under an attendant of its own, so that nothing that it left is there for the next Record."""
    environment = {**judge.environment, processes.MARKER: processes.mark(folder)}
    try:
        with Attending() as attending:
            return attending.run(
                argv,
                cwd=judge.working_directory,
                environment=environment,
                timeout_seconds=judge.permission.timeout_seconds,
                cancelled=lambda: False,
            )
    except AttendantLost as lost:
        processes.sweep_batch(folder)
        return Outcome("not_started", None, "", 0.0, str(lost))


def _read(ended: Outcome, mask: Callable[[str], str]) -> Judgement:
    """Returns what the command said; whatever is wrong with it says nothing of the agent."""
    if ended.end != "exited" or ended.exit_code != 0:
        how = f"ended as {ended.end}" if ended.end != "exited" else f"ended with exit code {ended.exit_code}"
        return Judgement("unknown", f"The judging command {how}.")
    # By line feeds alone: JSON may hold other ends of lines, such as U+2028, within a text.
    last = next((line for line in reversed(ended.output.split("\n")) if line.strip()), "")
    try:
        said = json.loads(last)
        verdict, reason = said["verdict"], said.get("reason", "")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return Judgement("unknown", "The last line of the judging command is no JSON object with a verdict.")
    if verdict not in get_args(Verdict) or not isinstance(reason, str):
        return Judgement("unknown", f"The judging command gave no verdict of {', '.join(get_args(Verdict))}.")
    clean = reason.encode("utf-8", "replace").decode()[:_REASON]
    return Judgement(verdict, mask(clean) or "The judging command says so.")


def _copied(folder: str, judge: CommandJudge) -> str | None:
    """Writes the pinned bytes where they are started, so that nobody can exchange them in between."""
    if judge.script is None or judge.permission.script_path is None:
        return None
    place = os.path.join(folder, "script")
    os.mkdir(place, 0o700)
    path = os.path.join(place, os.path.basename(judge.permission.script_path))
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o500), "wb") as file:
        file.write(judge.script)
    return path


def _digest(permission: ProbePermission) -> str:
    return digest(canonical(permission.model_dump(mode="json")))
