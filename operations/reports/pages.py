"""Writes a report as HTML: one file that needs nothing else, or an index with files of Cases where there are many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from operations.reports import charts
from operations.reports.differences import Pair, side_by_side
from operations.reports.model import MOVES, AssessmentReport, AttemptShown, CaseShown, RoundReport
from operations.reports.texts import visible

if TYPE_CHECKING:
    from jinja2 import Environment

INDEX = "report.html"
ASSESSMENT_INDEX = "assessment.html"
RECORDS_OF_A_PAGE = 500
ATTEMPTS_OF_A_PAGE = 1_000
"""Attempts that one file shows in full: about a megabyte of short ones."""
DOTS_DRAWN = 400
"""Cases of a dot plot; more of them are a table only."""
WORDS = {
    "pass": "Pass",
    "no_effect": "No effect",
    "regression": "Regression",
    "insufficient": "Insufficient evidence",
    "invalid": "Invalid",
}
"""A result, for people."""


@dataclass(frozen=True)
class Entry:
    """A Case on a page: its anchor, and one answer of each side beside the other."""

    case: CaseShown
    anchor: str
    pairs: tuple[Pair, ...]
    compared: tuple[int, int] | None
    """The repeats that are compared."""


@dataclass(frozen=True)
class Page:
    """A file of Cases."""

    name: str
    title: str
    entries: tuple[Entry, ...]


def round_pages(report: RoundReport) -> Iterator[tuple[str, str]]:
    """Yields the name and the content of each file of a report; the index comes last, when all it links to is there."""
    entries = [Entry(case, f"case-{n}", *_answers(case)) for n, case in enumerate(report.cases, 1)]
    pages = _paged(entries)
    links = {e.case.case_id: f"#{e.anchor}" for e in entries}
    links |= {e.case.case_id: f"{page.name}#{e.anchor}" for page in pages for e in page.entries}
    environment = _environment()
    for page in pages:
        shown = environment.get_template("cases.html.j2").render(title=page.title, entries=page.entries, index=INDEX)
        yield page.name, shown
    about = report.headline
    plots = {
        "forest": charts.forest(about.statistics) if about else None,
        "dots": charts.dots(about.primary) if about else None,
    }
    yield (
        INDEX,
        environment.get_template("round.html.j2").render(
            r=report, entries=entries, pages=pages, links=links, plots=plots, dots_drawn=DOTS_DRAWN
        ),
    )


def assessment_pages(report: AssessmentReport) -> Iterator[tuple[str, str]]:
    """Yields the name and the content of each file of an Assessment's report; the index comes last."""
    template = _environment().get_template("assessment.html.j2")
    judged, size = report.judged, RECORDS_OF_A_PAGE
    several = len(judged) > size
    pages = [
        Page(f"records-{n // size + 1}.html", f"Records {n + 1} to {min(n + size, len(judged))} of {len(judged)}", ())
        for n in (range(0, len(judged), size) if several else ())
    ]
    for number, page in enumerate(pages):
        own = judged[number * size : (number + 1) * size]
        yield page.name, template.render(a=report, judged=own, page=page, pages=pages, index=ASSESSMENT_INDEX)
    yield ASSESSMENT_INDEX, template.render(a=report, judged=() if several else judged, page=None, pages=pages)


def _paged(entries: Sequence[Entry]) -> tuple[Page, ...]:
    """Returns the files that Cases are dealt to; none where all fit into the report itself."""
    pages: list[list[Entry]] = [[]]
    attempts = 0
    for entry in entries:
        own = len(entry.case.left) + len(entry.case.right)
        if pages[-1] and attempts + own > ATTEMPTS_OF_A_PAGE:
            pages.append([])
            attempts = 0
        pages[-1].append(entry)
        attempts += own
    if len(pages) == 1:
        return ()
    found, first = [], 1
    for number, page in enumerate(pages, 1):
        title = f"Cases {first} to {first + len(page) - 1} of {len(entries)}"
        found.append(Page(f"cases-{number}.html", title, tuple(page)))
        first += len(page)
    return tuple(found)


def _answers(case: CaseShown) -> tuple[tuple[Pair, ...], tuple[int, int] | None]:
    """Returns an answer of each side, line by line: of a Case that moved, ones that show it."""
    primary = case.outcomes[0]
    worse = primary.move == "regressed"
    left = _answer(case.left, primary.dimension, "pass" if worse else "fail")
    right = _answer(case.right, primary.dimension, "fail" if worse else "pass")
    if left is None or right is None:
        return (), None
    return side_by_side(left.output or "", right.output or ""), (left.repeat, right.repeat)


def _answer(side: Sequence[AttemptShown], dimension: str, wanted: str) -> AttemptShown | None:
    """Returns an attempt with an output: one whose verdict is `wanted`, else the first."""
    spoken = [a for a in side if a.output]
    fitting = (a for a in spoken if any((v.dimension, v.verdict) == (dimension, wanted) for v in a.verdicts))
    return next(fitting, None) or next(iter(spoken), None)


def number(value: float | None) -> str:
    """Returns a figure to six digits, or a dash where it is not known."""
    return "-" if value is None else f"{value:.6g}"


def _shown(value: object) -> object:
    """Returns what a template writes: text, not markup, without anything that a reader would not see."""
    return visible(value) if type(value) is str else value  # markup is a str, and is of the templates


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - serving loads no heavy module

    environment = Environment(
        loader=PackageLoader("operations.reports"),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    from markupsafe import Markup  # noqa: PLC0415 - it comes with jinja2

    style = files("operations.reports").joinpath("templates", "style.css").read_text(encoding="utf-8")
    known: dict[str, Any] = {
        "style": Markup(style),  # noqa: S704 - a file of this package
        "width": charts.WIDTH,
        "questions": charts.QUESTIONS,
        "shade": charts.shade,
        "tone": charts.tone,
        "answer": charts.answer,
        "number": number,
        "words": WORDS,
        "moves": MOVES,
    }
    environment.globals.update(known)
    return environment
