"""Brings the runtime to a Revision before its batch, and proves that it got there: a stale image is never measured."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Literal, Self

from operations.execution.attending import AttendantLost, Attending, Outcome
from storage.masking import Masker
from storage.schema.base import Value
from storage.schema.projects import Preparation

PreparationOutcome = Literal["ready", "failed", "timeout", "stopped", "service_ended", "stale", "lost"]
SHOWN_CHARACTERS = 4_000
"""How much of the end of a program's output a result keeps."""
PROBE_SECONDS = 10.0
"""How long one probe may take."""
_PROBE_EVERY_SECONDS = 0.2
_PROBE_AGAIN_SECONDS = 5.0
"""How long a probe that fails after the batch is asked again: one lost answer is not another Revision."""


class Step(Value):
    """One program that a preparation ran."""

    name: Literal["prepare", "service", "probe"]
    argv: tuple[str, ...]
    end: str
    exit_code: int | None
    seconds: float
    output: str
    """The end of what it wrote, masked."""


class PreparationResult(Value):
    """What came of a preparation, or of the look at it after the batch."""

    outcome: PreparationOutcome
    steps: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()
    """Sentences for the batch; empty when all is well."""

    @property
    def ready(self) -> bool:
        """Whether the runtime is the Revision's, as far as the preparation can tell."""
        return self.outcome == "ready"


class Prepared:
    """A runtime that was prepared: alive until `close`, which the end of the server does as well."""

    def __init__(self, spec: Preparation, tree: str, commit: str, cwd: str, environment: Mapping[str, str]) -> None:
        self._spec = spec
        self._tree, self._commit, self._cwd = tree, commit, cwd
        self._environment = {**environment, "ATK_TREE": tree, "ATK_COMMIT": commit}
        self._attending: Attending | None = None
        self._steps: list[Step] = []
        self._masker: Masker | None = None
        self.result = PreparationResult(outcome="ready")
        """How the preparation went."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self, masker: Masker, cancelled: Callable[[], bool]) -> None:
        """Prepares, starts the service and waits for the probe's answer; `result` says how it went."""
        self._masker = masker
        if self._spec.mode == "stateless":
            return
        try:
            self.result = self._started(cancelled)
        except AttendantLost as lost:
            self.result = self._ended("lost", str(lost))
        except BaseException:
            self.close()
            raise
        if not self.result.ready:
            self.close()

    def check(self) -> PreparationResult:
        """Returns whether the runtime is still the Revision's. To be asked when the batch has ended, before `close`."""
        if self._attending is None:
            return self.result
        self._steps = []
        try:
            if gone := self._ended_service():
                return gone
            if not self._spec.probe:
                return PreparationResult(outcome="ready")
            return self._probed(_PROBE_AGAIN_SECONDS, lambda: False)
        except AttendantLost as lost:
            return self._ended("lost", str(lost))

    def close(self) -> None:
        """Ends the service and whatever the preparation left running. May be called more than once."""
        attending, self._attending = self._attending, None
        if attending is not None:
            attending.close()

    def _started(self, cancelled: Callable[[], bool]) -> PreparationResult:
        self._attending = attending = Attending()
        spec = self._spec
        if spec.argv:
            outcome = self._run("prepare", spec.argv, spec.timeout_seconds, cancelled)
            if not outcome.succeeded:
                word: PreparationOutcome = {"timeout": "timeout", "stopped": "stopped"}.get(outcome.end, "failed")  # type: ignore[assignment]
                return self._ended(word, f"The preparation {_how(outcome, spec.timeout_seconds)}.")
        if spec.service:
            argv = self._filled(spec.service)
            outcome = attending.serve(argv, cwd=self._cwd, environment=self._environment)
            if outcome.end != "serving":
                self._keep("service", argv, outcome)
                return self._ended("failed", f"The service {_how(outcome, 0)}.")
        if spec.probe:
            return self._probed(spec.ready_seconds, cancelled)
        return self._ended_service() or PreparationResult(outcome="ready", steps=tuple(self._steps))

    def _probed(self, seconds: float, cancelled: Callable[[], bool]) -> PreparationResult:
        """Asks the probe until it names the Revision's tree. An old server may answer while the new one starts."""
        end = time.monotonic() + seconds
        while True:
            if gone := self._ended_service():
                return gone
            outcome = self._run("probe", self._spec.probe, PROBE_SECONDS, cancelled)
            if outcome.succeeded and self._tree in outcome.output.split():
                return PreparationResult(outcome="ready", steps=tuple(self._steps))
            if outcome.end == "stopped" or cancelled():
                return self._ended("stopped", "The preparation was stopped before the probe had answered.")
            if time.monotonic() >= end:
                break
            time.sleep(_PROBE_EVERY_SECONDS)
            self._steps.pop()
        if not outcome.succeeded:
            return self._ended("failed", f"The probe {_how(outcome, PROBE_SECONDS)} for {seconds:g} s.")
        said = _one_line(self._masked(outcome.output)) or "nothing"
        return self._ended(
            "stale", f"The probe answered {said}, but the Revision's tree is {self._tree}: another content is running."
        )

    def _ended_service(self) -> PreparationResult | None:
        if self._attending is None:
            return None
        for service in self._attending.services():
            if service.end != "serving":
                self._keep("service", self._filled(self._spec.service), service)
                return self._ended("service_ended", f"The service ended by itself ({_code(service)}).")
        return None

    def _run(
        self, name: Literal["prepare", "probe"], argv: Sequence[str], seconds: float, cancelled: Callable[[], bool]
    ) -> Outcome:
        if self._attending is None:
            raise RuntimeError("BUG: a preparation is used after it was closed")
        filled = self._filled(argv)
        outcome = self._attending.run(
            filled,
            cwd=self._cwd,
            environment=self._environment,
            timeout_seconds=seconds,
            cancelled=cancelled,
            with_stderr=name != "probe",
        )
        self._keep(name, filled, outcome)
        return outcome

    def _filled(self, argv: Sequence[str]) -> list[str]:
        return [part.replace("{tree}", self._tree).replace("{commit}", self._commit) for part in argv]

    def _keep(self, name: Literal["prepare", "service", "probe"], argv: Sequence[str], outcome: Outcome) -> None:
        output = self._masked(outcome.error or outcome.output)[-SHOWN_CHARACTERS:]
        shown = tuple(self._masked(part) for part in argv)
        step = Step(
            name=name,
            argv=shown,
            end=outcome.end,
            exit_code=outcome.exit_code,
            seconds=outcome.seconds,
            output=output,
        )
        self._steps.append(step)

    def _masked(self, text: str) -> str:
        if self._masker is None:
            raise RuntimeError("BUG: a preparation shows output before it knows what to mask")
        return self._masker.text(text)

    def _ended(self, outcome: PreparationOutcome, note: str) -> PreparationResult:
        return PreparationResult(outcome=outcome, steps=tuple(self._steps), notes=(self._masked(note),))


def prepare(  # noqa: PLR0913 - what, for which Revision, where, and who hears of it
    spec: Preparation,
    *,
    tree: str,
    commit: str,
    cwd: str,
    environment: Mapping[str, str],
    masker: Masker,
    cancelled: Callable[[], bool] = lambda: False,
) -> Prepared:
    """Prepares the runtime for one batch of one Revision and returns it; its `result` says whether it is ready.

    The caller asks `check()` when the batch has ended and then calls `close()`, whatever happened. A result that is
    not ready means that the batch must not be measured, or is contaminated.

    Args:
        spec: The frozen plan's preparation, or the project's.
        tree: The Revision's tree id, which the probe has to answer with.
        commit: The Revision's commit.
        cwd: Where the programs start.
        environment: All that they get, besides ATK_TREE and ATK_COMMIT.
        masker: Masks what is kept of their output.
        cancelled: Whether the caller has given up.

    Raises:
        OSError: No process can be started.
    """
    prepared = Prepared(spec, tree, commit, cwd, environment)
    prepared.start(masker, cancelled)
    return prepared


def _how(outcome: Outcome, limit: float) -> str:
    if outcome.end == "not_started":
        return f"could not be started: {outcome.error}"
    if outcome.end == "timeout":
        return f"did not end within {limit:g} s"
    return "was stopped" if outcome.end == "stopped" else f"failed ({_code(outcome)})"


def _code(outcome: Outcome) -> str:
    code = outcome.exit_code
    return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()[:200]
