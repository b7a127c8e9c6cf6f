"""Crashes one operation at each of its file-changing calls, recovers, and checks what is left.

A trial: put the prepared target back, run `atk call` with a fault, run `atk recover`, check. One line says what
went wrong; no line means that all is well.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import pickle
import random
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from atk_mcp import inspector
from operations.registry import all_operations
from tests.operations.catalog.stages import Staged
from tests.support.crashloop import swallowing
from tests.support.crashloop.checking import Before, check, check_edited, has_store
from tests.support.crashloop.powerloss import Recording, materialise, sample, snapshot
from tests.support.crashloop.scenario import ELSEWHERE, KEYS, PROJECT, REQUEST_ID, Ladder, Scenario, edit
from tests.support.crashloop.tracer import HUNG, Point, Ran, Tracer, in_child

FAULTS = ("kill", "killone", "torn", "short", "ENOSPC", "ENOSPC+", "EIO", "EROFS+", "nested", "edited")
"""Besides these, any other name of an errno.

`killone`: only the process dies that makes the call, and it is not the one that answers: a Git child or one of a run.
`nested`: kill, and a kill of the recovery. `edited`: kill, and the user writes into a file before the recovery.
"""

MODELS = ("strict", "ordered")


PATIENCE_SECONDS = 60


@dataclass(frozen=True)
class Row:
    """One trial and what came of it. `wrong` is empty when all is well."""

    scenario: str
    mode: str
    at: str
    point: str
    status: int | None
    wrong: str

    def as_json(self) -> str:
        """The row as one line."""
        return json.dumps(asdict(self))


class Loop:
    """Trials of one scenario, in a folder of their own. `ladder` holds the stages that are built already."""

    def __init__(self, folder: str, scenario: Scenario, ladder: Ladder) -> None:
        self.folder = os.path.realpath(folder)
        self.scenario = scenario
        self._ladder = ladder
        self.root = os.path.join(self.folder, "target")
        """What is traced, killed and put back: the project, the user's keys, and where isolated runs go."""
        self.tracer = Tracer(self.folder, self.root)
        all_operations()  # children find everything imported
        self.prepared: Mapping[str, Any] = self._told(self._prepare)
        self._base = os.path.join(self.folder, "base")
        shutil.rmtree(self._base, ignore_errors=True)
        os.rename(self.root, self._base)
        self._request = os.path.join(self.folder, "request.json")
        with open(self._request, "w", encoding="utf-8") as file:
            named = {"request_id": REQUEST_ID} if scenario.keyed else {}
            json.dump({**self.prepared["arguments"], **named}, file)
        self.reset()
        self.before: Before = self._told(lambda: Before.of(self._target()))
        self._wanted: Any = None
        self._main = 0
        self.points = self._clean()

    def _prepare(self) -> Mapping[str, Any]:
        shutil.rmtree(self.root, ignore_errors=True)
        for name in (KEYS, ELSEWHERE):
            os.makedirs(os.path.join(self.root, name))
        target = self._ladder.copy(self.scenario.stage, os.path.join(self.root, PROJECT))
        arguments = dict(self.scenario.arguments(target))
        if self.scenario.edited:
            edit(target)
        return {"arguments": arguments, "ids": target.ids}

    def _target(self) -> Staged:
        return Staged(os.path.join(self.root, PROJECT), dict(self.prepared["ids"]))

    def _told(self, look: Callable[[], Any]) -> Any:
        """Returns what `look` finds in another process: this one must have no project open."""
        path = os.path.join(self.folder, "told")

        def tell() -> int:
            found = look()
            with open(path, "wb") as file:
                pickle.dump(found, file)
            return 0

        looked = self._in_child(tell)
        assert looked.status == 0, looked.stderr
        with open(path, "rb") as file:
            return pickle.load(file)

    def _clean(self) -> tuple[Point, ...]:
        """Runs without a fault. Returns the points at which there can be one."""
        ran = self.tracer.count(self._call)
        assert ran.status == (1 if self.scenario.refused else 0), ran.stderr
        self._main = ran.pid
        recovered = self._in_child(self._recover)
        assert recovered.status == 0, recovered.stderr
        self._wanted = self._told(lambda: self._check(ran.stdout))
        return ran.points

    def reset(self, source: str = "") -> None:
        """Puts the prepared target back, or what was kept in `source`."""
        shutil.rmtree(self.root, ignore_errors=True)
        subprocess.run(["cp", "-a", source or self._base, self.root], check=True)

    # ---- commands, each in a child --------------------------------------------------------------------------

    def _in_child(self, command: Callable[[], int]) -> Ran:
        return in_child(self.folder, self._at_home(command))

    def _at_home(self, command: Callable[[], int]) -> Callable[[], int]:
        def run() -> int:
            os.environ["ATK_KEY_HOME"] = os.path.join(self.root, KEYS)
            os.environ["XDG_CACHE_HOME"] = os.path.join(self.root, ELSEWHERE)
            return command()

        return run

    def _call(self) -> int:
        given = self.scenario.command
        usual = ["call", self.scenario.operation, "--request", self._request]
        return self._atk(*(usual if given is None else given(self.prepared["arguments"])))

    def _recover(self) -> int:
        return self._atk("recover")

    def _atk(self, *arguments: str) -> int:
        project = ["--project", os.path.join(self.root, PROJECT)]
        return self._at_home(lambda: inspector.main([*arguments, *project]))()

    # ---- faults ---------------------------------------------------------------------------------------------

    def places(self, mode: str) -> list[int]:
        """The numbers of the calls at which `mode` can strike."""
        numbered = list(enumerate(self.points, 1))
        if mode in ("torn", "short"):
            return [n for n, point in numbered if point.writes]
        if mode == "killone":
            return [n for n, point in numbered if point.pid != self._main]
        if (mode == "nested" and not self.scenario.git) or (
            mode == "edited" and "prompt.txt" not in self.scenario.writes
        ):
            return []
        return [n for n, _ in numbered]

    def chosen(self, mode: str, seed: int, most: int | None) -> list[int]:
        """Returns the places of `mode`, or `most` of them that `seed` chooses."""
        places = self.places(mode)
        if most is None or len(places) <= most:
            return places
        return sorted(random.Random(f"{seed} {self.scenario.name} {mode}").sample(places, most))

    def faults(
        self, mode: str, places: Iterable[int] | None = None, *, most: int | None = None, skip: Iterable[str] = ()
    ) -> Iterator[Row]:
        """Tries `mode` at each of `places`, by default at all.

        `most`: kills of one recovery, by default all. `skip`: kills of recoveries that were tried, each as it is told.
        """
        for place in self.places(mode) if places is None else places:
            self.reset()
            kind = "kill" if mode in ("nested", "edited") else mode
            ran = self.tracer.fault(self._call, kind, place)
            point = str(ran.points[place - 1]) if len(ran.points) >= place else "(not reached)"
            if mode == "nested":
                yield from self._nested(place, point, ran, most, frozenset(skip))
            elif mode == "edited":
                yield Row(self.scenario.name, mode, str(place), point, ran.status, self._wrong_when_edited(ran))
            else:
                yield self._judged(mode, str(place), point, ran)

    def _nested(self, place: int, point: str, ran: Ran, most: int | None, skip: frozenset[str]) -> Iterator[Row]:
        """Kills the recovery at each of its calls, or at `most` that are spread over them."""
        crashed = os.path.join(self.folder, "crashed")
        shutil.rmtree(crashed, ignore_errors=True)
        os.rename(self.root, crashed)
        self.reset(crashed)
        calls = len(self.tracer.count(self._recover).points)
        step = 1 if most is None else max(1, calls // most)
        for second in range(1 + place % step, calls + 1, step):
            if f"{place}.{second}" in skip:
                continue
            self.reset(crashed)
            again = self.tracer.fault(self._recover, "kill", second)
            there = str(again.points[second - 1]) if len(again.points) >= second else "(not reached)"
            yield self._judged("nested", f"{place}.{second}", f"{point}, then in recovery {there}", ran)

    # ---- power ----------------------------------------------------------------------------------------------

    def recording(self) -> Recording:
        """Runs without a fault, and returns what it did to the disk."""
        self.reset()
        before = snapshot(self.root)
        ran = self.tracer.record(self._call)
        assert ran.status == (1 if self.scenario.refused else 0), ran.stderr
        made = Recording.read(self.root, before, self.tracer.log, self.tracer.data)
        assert made.unmodelled == []
        return made

    def power(self, model: str, seed: int, most: int | None = None, skip: Iterable[str] = ()) -> Iterator[Row]:
        """Tries the states that a power cut could leave, at most `most`, those named in `skip` left out."""
        recording = self.recording()
        known = set(skip)
        usual = self.scenario
        self.scenario = replace(usual, done=usual.after_power or usual.done)
        for number, (choice, tree) in enumerate(sample(recording, model, seed, most)):
            if str(number) in known:
                continue
            materialise(self.root, tree)
            printed = recording.printed[choice.moment].decode()
            yield self._judged(f"power {model} {seed}", str(number), choice.why, Ran(137, printed, ""))
        self.scenario = usual

    # ---- judging --------------------------------------------------------------------------------------------

    def _judged(self, mode: str, at: str, point: str, ran: Ran) -> Row:
        return Row(self.scenario.name, mode, at, point, ran.status, self._wrong(mode, at, ran))

    def _wrong(self, mode: str, at: str, ran: Ran) -> str:
        if ran.status == HUNG:
            return "it did not end"
        failing = hasattr(errno, mode.rstrip("+"))
        # Which process makes the n-th call of a run is not the same each time: it may be the one that answers.
        ended = (0, 1) if failing else (0, 1, 137) if mode == "killone" else (ran.status,)
        if "Traceback" in ran.stderr or ran.status not in ended:
            return f"no readable refusal ({ran.status}): {ran.stderr[-600:]}"
        kind = self.scenario
        if failing and (kept := swallowing.swallowed(ran, int(at), kind.refused, runs=kind.runs or kind.waits)):
            return kept
        return self._wrong_recovery() or self._failure(lambda: self._check(ran.stdout))

    def _wrong_recovery(self) -> str:
        self._let_end()
        recovered = self._in_child(self._recover)
        if recovered.status != 0 and (self.before.objects is not None or self._told(lambda: has_store(self._target()))):
            return f"recovery failed ({recovered.status}): {recovered.stderr[-600:]}"
        return ""

    def _let_end(self) -> None:
        """Waits until nobody is at work any more: the parts of a run outlive the one that was killed by a moment."""
        owners = os.path.join(self.root, PROJECT, ".atk/owners")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while any(_held(os.path.join(owners, name)) for name in (os.listdir(owners) if os.path.isdir(owners) else ())):
            assert time.monotonic() < deadline, "somebody is still at work"
            time.sleep(0.05)

    def _failure(self, checked: Callable[[], Any]) -> str:
        def run() -> int:
            checked()
            return 0

        found = self._in_child(run)
        return "" if found.status == 0 else found.stderr[-1200:]

    def _check(self, printed: str) -> Any:
        given = self.prepared["arguments"]
        return check(self._target(), self.scenario, self.before, given, printed, wanted=self._wanted)

    def _wrong_when_edited(self, ran: Ran) -> str:
        """The user's words, written between the crash and the recovery, are there afterwards."""
        if not os.path.isdir(os.path.join(self.root, PROJECT, ".atk")):
            return ""
        written = os.path.join(self.root, PROJECT, "prompt.txt")
        with open(written, "w", encoding="utf-8") as file:
            file.write("the user's own words\n")
        recovered = self._in_child(self._recover)
        if recovered.status not in (0, 1) or "Traceback" in recovered.stderr:
            return f"recovery failed ({recovered.status}): {recovered.stderr[-600:]}"
        del ran
        return self._failure(lambda: check_edited(self._target(), "the user's own words\n"))


def _held(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
