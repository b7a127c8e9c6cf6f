"""Crashes one operation at each of its file-changing calls, recovers, and checks what is left.

A trial: put the prepared target back, run `atk call` with a fault, run `atk recover`, check. One line says what
went wrong; no line means that all is well.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from atk_mcp import inspector
from operations.registry import all_operations
from tests.support.crashloop.checking import Before, check
from tests.support.crashloop.powerloss import Recording, materialise, sample, snapshot
from tests.support.crashloop.scenarios import REQUEST_ID, Scenario
from tests.support.crashloop.tracer import Point, Ran, Tracer, in_child
from tests.support.projects import Target

FAULTS = ("kill", "torn", "short", "ENOSPC", "ENOSPC+", "EIO")
"""Besides these, any other name of an errno, and `killone`: only the process dies that makes the call."""

MODELS = ("strict", "ordered")


@dataclass(frozen=True)
class Row:
    """One trial and what came of it. `wrong` is empty when all is well."""

    scenario: str
    mode: str
    at: str
    point: str
    status: int | None
    wrong: str

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells this trial from the others."""
        return self.scenario, self.mode, self.at

    def as_json(self) -> str:
        """The row as one line."""
        return json.dumps(asdict(self))


class Loop:
    """Trials of one scenario, in a folder of their own."""

    def __init__(self, folder: str, scenario: Scenario) -> None:
        self.folder = os.path.realpath(folder)
        self.scenario = scenario
        self.root = os.path.join(self.folder, "target")
        self.tracer = Tracer(self.folder, self.root)
        all_operations()  # children find everything imported
        made = in_child(self.folder, self._prepare)
        assert made.status == 0, made.stderr
        self._base = os.path.join(self.folder, "base")
        shutil.rmtree(self._base, ignore_errors=True)
        os.rename(self.root, self._base)
        with open(os.path.join(self.folder, "prepared.json"), encoding="utf-8") as file:
            self.arguments: Mapping[str, Any] = json.load(file)
        self._request = os.path.join(self.folder, "request.json")
        with open(self._request, "w", encoding="utf-8") as file:
            json.dump({**self.arguments, "request_id": REQUEST_ID}, file)
        self.reset()
        self.before = self._looked_at()
        self.points = self._clean()

    def _prepare(self) -> int:
        shutil.rmtree(self.root, ignore_errors=True)
        arguments = self.scenario.prepare(Target(self.root))
        with open(os.path.join(self.folder, "prepared.json"), "w", encoding="utf-8") as file:
            json.dump(dict(arguments), file)
        return 0

    def _looked_at(self) -> Before:
        """The target before the call, as another process sees it: this one must have no project open."""
        import pickle

        path = os.path.join(self.folder, "before")

        def look() -> int:
            from tests.support.crashloop.checking import Existing

            with open(path, "wb") as file:
                pickle.dump(Before.of(Existing(self.root)), file)
            return 0

        looked = in_child(self.folder, look)
        assert looked.status == 0, looked.stderr
        with open(path, "rb") as file:
            return pickle.load(file)

    def _clean(self) -> tuple[Point, ...]:
        """Runs without a fault. Returns the points at which there can be one."""
        ran = self.tracer.count(self._call)
        assert ran.status == 0, ran.stderr
        row = self._judged("none", "0", "a clean run", ran)
        assert not row.wrong, row.wrong
        return ran.points

    def reset(self) -> None:
        """Puts the prepared target back."""
        shutil.rmtree(self.root, ignore_errors=True)
        subprocess.run(["cp", "-a", self._base, self.root], check=True)

    def _call(self) -> int:
        return inspector.main(["call", self.scenario.operation, "--request", self._request, "--project", self.root])

    def _recover(self) -> int:
        return inspector.main(["recover", "--project", self.root])

    # ---- faults ---------------------------------------------------------------------------------------------

    def places(self, mode: str) -> list[int]:
        """The numbers of the calls at which `mode` can strike."""
        numbered = enumerate(self.points, 1)
        return [n for n, point in numbered if point.writes or mode not in ("torn", "short")]

    def faults(self, mode: str, places: Iterable[int] | None = None) -> Iterator[Row]:
        """Tries `mode` at each of `places`, by default at all."""
        for place in self.places(mode) if places is None else places:
            self.reset()
            ran = self.tracer.fault(self._call, mode, place)
            point = str(ran.points[place - 1]) if len(ran.points) >= place else "(not reached)"
            yield self._judged(mode, str(place), point, ran)

    # ---- power ----------------------------------------------------------------------------------------------

    def recording(self) -> Recording:
        """Runs without a fault, and returns what it did to the disk."""
        self.reset()
        before = snapshot(self.root)
        ran = self.tracer.record(self._call)
        assert ran.status == 0, ran.stderr
        made = Recording.read(self.root, before, self.tracer.log, self.tracer.data)
        assert made.unmodelled == []
        return made

    def power(self, model: str, seed: int, most: int | None = None, skip: Iterable[str] = ()) -> Iterator[Row]:
        """Tries the states that a power cut could leave, at most `most`, those named in `skip` left out."""
        recording = self.recording()
        known = set(skip)
        for number, (choice, tree) in enumerate(sample(recording, model, seed, most)):
            if str(number) in known:
                continue
            materialise(self.root, tree)
            printed = recording.printed[choice.moment].decode()
            yield self._judged(f"power {model} {seed}", str(number), choice.why, Ran(137, printed, ""))

    # ---- judging --------------------------------------------------------------------------------------------

    def _judged(self, mode: str, at: str, point: str, ran: Ran) -> Row:
        return Row(self.scenario.name, mode, at, point, ran.status, self._wrong(mode, ran))

    def _wrong(self, mode: str, ran: Ran) -> str:
        failing = hasattr(errno, mode.rstrip("+"))
        if "Traceback" in ran.stderr or (failing and ran.status not in (0, 1)):
            return f"no readable refusal ({ran.status}): {ran.stderr[-600:]}"
        recovered = in_child(self.folder, self._recover)
        if recovered.status != 0:
            return f"recovery failed ({recovered.status}): {recovered.stderr[-600:]}"
        checked = in_child(self.folder, lambda: self._checked(ran.stdout))
        return "" if checked.status == 0 else checked.stderr[-1200:]

    def _checked(self, printed: str) -> int:
        check(self.root, self.scenario, self.before, self.arguments, printed)
        return 0
