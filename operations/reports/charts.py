"""Where the marks of the charts lie: pure geometry, in units of an SVG's viewBox. The templates draw them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from operations.reports.model import MOVES, CaseOutcome, HeatCell
from storage.schema.rounds import Rule
from storage.schema.validations import GateStatistics, QuestionStatistics

WIDTH = 720
"""Of every chart."""
LABELS = 250
"""Of the column of names at the left."""
_RIGHT = 140
"""Of the column of figures at the right."""
ROW = 26
"""Height of a row."""
_TOP = 28


@dataclass(frozen=True)
class Axis:
    """A scale from `low` to `high` between the names and the figures."""

    low: float
    high: float

    def x(self, value: float) -> float:
        """Returns where a value lies; one beyond the scale lies at its end."""
        inside = min(self.high, max(self.low, value))
        return round(LABELS + (inside - self.low) / (self.high - self.low) * (WIDTH - LABELS - _RIGHT), 1)

    @property
    def ticks(self) -> tuple[tuple[float, str], ...]:
        """Positions and names of the marks of the scale, zero among them."""
        step = 0.5 if self.high - self.low > 1 else 0.25
        first = math.ceil(self.low / step)
        values = [step * n for n in range(first, math.floor(self.high / step) + 1)]
        return tuple((self.x(v), f"{v:+.2f}".rstrip("0").rstrip(".") if v else "0") for v in values)


@dataclass(frozen=True, kw_only=True)
class ForestRow:
    """One question: its difference with the one-sided bounds that were computed."""

    y: float
    name: str
    answer: str
    tone: str
    figure: str
    x: float | None
    """Of the difference; None where nothing is known."""
    lower: float
    upper: float
    open_below: bool
    """Whether no lower bound was computed, so that the bar goes to the end of the scale."""
    open_above: bool
    margin: float | None
    spoken: str
    """The row as a sentence, for those who do not see it."""


@dataclass(frozen=True, kw_only=True)
class Forest:
    """The differences of a comparison's questions, right minus left."""

    height: float
    axis: Axis
    zero: float
    rows: tuple[ForestRow, ...]


QUESTIONS = {
    "screen": "Did the screening targets improve?",
    "improvement": "Did the targets improve?",
    "harm": "Were protected Cases harmed?",
    "concentrated_harm": "Did single Cases fall steeply?",
    "non_inferiority": "Is it no worse within the margin?",
    "general_claim": "Is it better over all Cases?",
    "efficiency": "Did the spending fall?",
}


def answer(found: QuestionStatistics, rule: Rule) -> str:
    """Returns what was answered; the counts rule compares points and asks none of the questions."""
    return found.answer if rule == "statistical" else "not asked"


def tone(found: QuestionStatistics, rule: Rule) -> str:
    """Returns whether an answer is `good` or `bad` news, or `open`: of the questions about harm a yes is bad."""
    if answer(found, rule) not in {"yes", "no"}:
        return "open"
    return "good" if (found.answer == "yes") != (found.question in {"harm", "concentrated_harm"}) else "bad"


def forest(found: GateStatistics) -> Forest:
    """Returns the forest plot of the questions about pass rates; spending is in other units and not drawn."""
    drawn = [q for q in found.questions if q.question != "efficiency"]
    values = [v for q in drawn for v in (q.difference, q.lower, q.upper, -(q.margin or 0)) if v is not None]
    low, high = min([-0.5, *values]), max([0.5, *values])
    axis = Axis(max(-1.0, low), min(1.0, high))
    rows = tuple(_forest_row(q, found.rule, axis, _TOP + ROW * n + ROW / 2) for n, q in enumerate(drawn))
    return Forest(height=_TOP + ROW * len(rows) + 8, axis=axis, zero=axis.x(0), rows=rows)


def _forest_row(found: QuestionStatistics, rule: Rule, axis: Axis, y: float) -> ForestRow:
    known = found.difference is not None
    figure = f"{found.difference:+.3f}" if found.difference is not None else "not known"
    between = " to ".join("open" if v is None else f"{v:+.3f}" for v in (found.lower, found.upper))
    name = QUESTIONS[found.question]
    return ForestRow(
        y=y,
        name=f"{name[:-1]} ({found.dimension})"[:46],
        answer=answer(found, rule),
        tone=tone(found, rule),
        figure=figure,
        x=axis.x(found.difference) if found.difference is not None else None,
        lower=axis.x(found.lower if found.lower is not None else axis.low),
        upper=axis.x(found.upper if found.upper is not None else axis.high),
        open_below=found.lower is None,
        open_above=found.upper is None,
        margin=axis.x(-found.margin) if found.margin is not None else None,
        spoken=f"{name} {answer(found, rule)}: difference {figure}" + (f", bounds {between}." if known else "."),
    )


@dataclass(frozen=True, kw_only=True)
class DotRow:
    """One Case: its difference, and its repeats on both sides as ticks."""

    y: float
    case_id: str
    label: str
    move: str
    x: float | None
    figure: str
    ticks: tuple[tuple[float, float, str], ...]
    """Left edge, top and mark of each repeat: the upper row is the left side's."""
    spoken: str


@dataclass(frozen=True, kw_only=True)
class Dots:
    """The difference of each Case, in the given order."""

    height: float
    zero: float
    axis: Axis
    rows: tuple[DotRow, ...]


_TICK, _TICKS = 6.0, 78.0
"""Distance of two ticks, and the width that a dozen needs."""


def dots(outcomes: Sequence[CaseOutcome]) -> Dots:
    """Returns the dot plot of per-Case differences."""
    axis = Axis(-1.0, 1.0)
    rows = tuple(_dot_row(o, axis, _TOP + ROW * n + ROW / 2) for n, o in enumerate(outcomes))
    return Dots(height=_TOP + ROW * len(rows) + 8, zero=axis.x(0), axis=axis, rows=rows)


def _dot_row(outcome: CaseOutcome, axis: Axis, y: float) -> DotRow:
    change = outcome.difference
    before, after = (_share(marks) for marks in (outcome.left, outcome.right))
    ticks = tuple(
        (round(WIDTH - _TICKS + n * _TICK, 1), y - 8 if side == "left" else y + 1, mark)
        for side, marks in (("left", outcome.left), ("right", outcome.right))
        for n, mark in enumerate(marks[:12])
    )
    return DotRow(
        y=y,
        case_id=outcome.case_id,
        label=outcome.case_id if len(outcome.case_id) <= 34 else f"{outcome.case_id[:33]}…",  # noqa: PLR2004 - fits
        move=outcome.move,
        x=None if change is None else axis.x(change),
        figure="?" if change is None else f"{change:+.2f}",
        ticks=ticks,
        spoken=f"{outcome.case_id} {MOVES[outcome.move]}, {before} before and {after} after.",
    )


def _share(marks: Sequence[str]) -> str:
    known = [m for m in marks if m in ("pass", "fail")]
    return f"{known.count('pass')} of {len(known)} passed" if known else "nothing known"


def shade(cell: HeatCell | None) -> str:
    """Returns the class of a heat map's cell: `none` for not evaluated, `unknown`, or `rate0` to `rate4`."""
    if cell is None:
        return "none"
    if cell.rate is None:
        return "unknown"
    return f"rate{min(4, int(cell.rate * 4 + 0.5)) if 0 < cell.rate < 1 else int(cell.rate) * 4}"
