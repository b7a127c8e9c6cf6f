"""What the journal says: an immutable state, folded from its frames one by one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

from storage.errors import AtkError, NextCall
from storage.files import Stored, StoreDamaged
from storage.frames import Frame
from storage.journal import Position
from storage.schema.base import Record
from storage.schema.kinds import KINDS
from storage.schema.probes import Probe

RecordT = TypeVar("RecordT", bound=Record)


@dataclass(kw_only=True, eq=False)
class UnknownObject(AtkError):
    """A request names an object that the project does not have."""

    message = "There is no {kind} {given!r} in this project. The newest there are: {known}."
    next_calls = (NextCall("get_status"),)

    kind: str
    given: str
    known: list[str]


@dataclass(frozen=True)
class RequestMade:
    """A call that was made under a `request_id`, and what it was answered."""

    record: int
    digest: str
    response: Mapping[str, Any]


@dataclass(frozen=True)
class OpenIntent:
    """An effect outside the store that was announced and is neither done nor undone."""

    number: int
    operation: str
    owner: str
    at: str
    steps: tuple[Mapping[str, Any], ...]
    claims: tuple[str, ...]
    frame: Mapping[str, Any]


@dataclass(frozen=True)
class OpenRun:
    """A run that was started and is not sealed."""

    batch_id: str
    number: int
    owner: str
    at: str
    details: Mapping[str, Any]

    @property
    def claims(self) -> tuple[str, ...]:
        """What the run relies on for as long as it goes on."""
        return tuple(self.details.get("claims", ("worktree",)))


@dataclass(frozen=True)
class State:
    """The project as of one journal position."""

    position: Position = field(default_factory=Position)
    project_id: str = ""
    objects: Mapping[str, Mapping[str, Record]] = field(default_factory=dict)
    written: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """The journal record that holds each object's newest version."""
    files: Mapping[str, Stored] = field(default_factory=dict)
    requests: Mapping[str, RequestMade] = field(default_factory=dict)
    intents: Mapping[int, OpenIntent] = field(default_factory=dict)
    runs: Mapping[str, OpenRun] = field(default_factory=dict)

    def get(self, kind: type[RecordT], object_id: str) -> RecordT:
        """Returns an object.

        Raises:
            UnknownObject: There is none of that kind and id.
        """
        found = self.objects.get(kind.kind, {}).get(object_id)
        if found is None:
            known = list(self.objects.get(kind.kind, {}))[-5:]
            raise UnknownObject(kind=kind.kind, given=object_id, known=known)
        return cast("RecordT", found)

    def find(self, kind: type[RecordT], object_id: str | None) -> RecordT | None:
        """Returns an object, or None."""
        return cast("RecordT | None", self.objects.get(kind.kind, {}).get(object_id or ""))

    def all(self, kind: type[RecordT]) -> list[RecordT]:
        """Returns the objects of a kind in the order in which they were first recorded."""
        return cast("list[RecordT]", list(self.objects.get(kind.kind, {}).values()))

    def claimed(self) -> dict[str, str]:
        """Returns what open intents and runs rely on, each with a word on who does."""
        found = {claim: f"{i.operation} (record {i.number})" for i in self.intents.values() for claim in i.claims}
        for run in self.runs.values():
            holder = f"the run of {run.batch_id} (record {run.number})"
            found |= dict.fromkeys(run.claims, holder)
        for probe in self.all(Probe):
            if probe.status == "running" and probe.leases_worktree:
                found["worktree"] = f"{probe.id} (record {self.written[Probe.kind, probe.id]})"
        return found

    def run_on(self, claim: str) -> OpenRun | None:
        """Returns the run that relies on `claim`, if one does."""
        return next((run for run in self.runs.values() if claim in run.claims), None)


def apply(state: State, frame: Frame, path: str) -> State:
    """Returns `state` after `frame`.

    Raises:
        StoreDamaged: The frame does not say what a frame of its kind says.
    """
    after, damage = fold(state, [frame], path)
    if damage is not None:
        raise damage
    return after


def fold(state: State, frames: Iterable[Frame], path: str) -> tuple[State, StoreDamaged | None]:
    """Returns `state` after `frames`, and what is wrong with the first that cannot be read.

    The state's maps are copied once for all frames, so that opening a long journal takes time in proportion to it.
    """
    after = replace(
        state,
        objects={kind: dict(records) for kind, records in state.objects.items()},
        written=dict(state.written),
        files=dict(state.files),
        requests=dict(state.requests),
    )
    for frame in frames:
        try:
            after = _after(after, frame)
        except (KeyError, TypeError, ValueError) as error:
            reason = f"holds a record that cannot be read ({type(error).__name__})"
            return after, StoreDamaged(path=path, place=f" at byte {frame.start}", reason=reason)
    return after, None


def _after(state: State, frame: Frame) -> State:
    """Returns `state` after `frame`; its maps, which are the fold's own, are changed in place."""
    body = frame.body
    if body["kind"] == "checkpoint" and body["n"]:
        place = Position(body["n"], frame.digest, frame.start, frame.end, body["segment"])
        return _loaded(body["state"], place, body["project_id"])
    position = state.position.after(frame)
    match body["kind"]:
        case "checkpoint":
            return replace(state, position=position, project_id=body["project_id"])
        case "operation":
            _record(state, body)
            return replace(state, position=position)
        case "intent":
            return replace(state, position=position, intents={**state.intents, body["n"]: _intent(body)})
        case "done":
            intent = state.intents[body["intent"]]
            _record(state, {**intent.frame, "n": body["n"]})
            return _without(state, position, intent.number)
        case "undone":
            return _without(state, position, body["intent"])
        case "run_started":
            opened = OpenRun(body["run"]["batch_id"], body["n"], body["run"]["owner"], body["at"], body["run"])
            _record(state, body)
            return replace(state, position=position, runs={**state.runs, opened.batch_id: opened})
        case "run_sealed":
            _record(state, body)
            runs = {k: v for k, v in state.runs.items() if k != body["batch_id"]}
            return replace(state, position=position, runs=runs)
        case other:
            raise ValueError(f"there is no record of kind {other!r}")


def dump(state: State) -> dict[str, Any]:
    """Returns what a checkpoint says of `state`, as JSON."""
    return {
        "objects": {
            kind: {k: record.model_dump(mode="json") for k, record in records.items()}
            for kind, records in state.objects.items()
        },
        "written": [[kind, k, number] for (kind, k), number in state.written.items()],
        "files": {path: [stored.sha256, stored.size] for path, stored in state.files.items()},
        "requests": {k: [made.record, made.digest, dict(made.response)] for k, made in state.requests.items()},
        "intents": [intent.frame for intent in state.intents.values()],
        "runs": [[run.batch_id, run.number, run.owner, run.at, run.details] for run in state.runs.values()],
    }


def _loaded(body: Mapping[str, Any], position: Position, project_id: str) -> State:
    """Returns the state that `dump` described; maps are new, so a fold may change them."""
    objects: dict[str, dict[str, Record]] = {kind: {} for kind in body["objects"]}
    for kind, k, _ in body["written"]:  # only lists keep their order in canonical JSON
        objects[kind][k] = KINDS[kind].model_validate(body["objects"][kind][k])
    return State(
        position=position,
        project_id=project_id,
        objects=objects,
        written={(kind, k): number for kind, k, number in body["written"]},
        files={path: Stored(sha256, size) for path, (sha256, size) in body["files"].items()},
        requests={k: RequestMade(*made) for k, made in body["requests"].items()},
        intents={frame["n"]: _intent(frame) for frame in body["intents"]},
        runs={run[0]: OpenRun(*run) for run in body["runs"]},
    )


def _intent(body: Mapping[str, Any]) -> OpenIntent:
    return OpenIntent(
        number=body["n"],
        operation=body["op"],
        owner=body["owner"],
        at=body["at"],
        steps=tuple(body["steps"]),
        claims=tuple(body["claims"]),
        frame=body,
    )


def _without(state: State, position: Position, number: int) -> State:
    return replace(state, position=position, intents={k: v for k, v in state.intents.items() if k != number})


def _record(state: State, body: Mapping[str, Any]) -> None:
    """Takes in what a record made: objects, files and response. All is read before any of it is taken in."""
    number = body["n"]
    made: dict[str, dict[str, Record]] = {}
    for kind, records in body.get("objects", {}).items():
        model = KINDS[kind]  # also of a kind without objects: one that is not known is damage
        made[kind] = {k: model.model_validate(v) for k, v in records.items()}
    files = {k: Stored(v["sha256"], v["size"]) for k, v in body.get("files", {}).items()}
    requests = {}
    if body.get("request_id") is not None:
        answer = {**body["response"], "journal_record": number}
        requests[body["request_id"]] = RequestMade(number, body["arguments_digest"], answer)
    for kind, found in made.items():
        cast("dict[str, dict[str, Record]]", state.objects).setdefault(kind, {}).update(found)
        cast("dict[tuple[str, str], int]", state.written).update(dict.fromkeys(((kind, k) for k in found), number))
    cast("dict[str, Stored]", state.files).update(files)
    cast("dict[str, RequestMade]", state.requests).update(requests)
