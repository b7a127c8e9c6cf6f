"""Prints how often the gate is right and wrong on agents whose true pass rates are known (seeded Monte-Carlo).

    python benchmarks/gate_errors.py [--draws 1000] [--seed 1] [--mixes 3] [--jobs 2]
        [--parts sizes looks others drawn rounds] [--through-tools 200] [--rounds 50] [--scale]

The standard mix: 60 % of the Cases pass at .95, 20 % at .6, and 20 % are targets that pass at .2. `--mixes` adds as
many mixes of each drawn kind. Every row draws from the seed and from what is run, so that a row says the same whichever
others are printed, and margins and looks are read off the same draws. `--through-tools` draws that many comparisons of
each change and makes them by compare_and_gate itself, on stored and judged batches; `--rounds` takes that many whole
Rounds through finish_round; `--scale` times compare_and_gate from 100 to 1,000 Cases. With any of these three the table
is left out, but for `--table`. It ends with 1 where a limit is exceeded by more than chance explains.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.gate_model import (
    RESULTS,
    Mix,
    Scenario,
    Terms,
    compared,
    completes,
    drawn_mix,
    keeps_one,
    standard_mix,
)

MARGINS = (0.1, 0.15, 0.2)
SCENARIOS: tuple[Scenario, ...] = ("unchanged", "regression", "fix", "fix and break two")
SIZES = ((20, 5, 4), (20, 3, 4), (40, 5, 8), (60, 5, 12), (12, 10, 3), (10, 10, 2), (10, 5, 2))
"""Cases, repeats and targets."""

PARTS = ("sizes", "looks", "others", "drawn", "rounds")

LIMITS = (
    ("unchanged", "pass", 0.05),
    ("unchanged", "regression", 0.05),
    ("fix", "regression", 0.05),
    ("fix and break two", "pass", 0.10),
    ("fix and lose the margin", "pass", 0.05),
)
"""What may not be exceeded in any row of the statistical rule."""


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    mix: Mix
    scenario: Scenario
    terms: Terms
    picked: bool = False
    """Whether the targets are the Cases that failed in a run of B0."""

    @property
    def drawn_from(self) -> str:
        """What is run, which seeds the draws: not the margin or the look that they are read at."""
        run = self.mix.name, len(self.mix.rates), self.mix.targets, self.terms.repeats, self.scenario, self.picked
        return "/".join(map(str, run))

    @property
    def label(self) -> str:
        """The first cell: the mix, or what is special about the row."""
        if self.terms.rule == "counts":
            return "counts rule"
        if self.terms.screening:
            return f"{self.terms.screening} targets screen"
        return "targets by failure" if self.picked else self.mix.name


def measured(row: Row, draws: int, seed: int) -> Counter[str]:
    """Returns the results of as many comparisons."""
    rng = random.Random(f"{seed}/{row.drawn_from}")
    found = Counter(compared(row.mix, row.scenario, row.terms, rng, picked=row.picked) for _ in range(draws))
    found["no_effect"] += found.pop("screened out", 0)
    return found


def quick_rows() -> Iterator[Row]:
    """Yields the standard mix of 20 Cases at its first look."""
    for cases, repeats, targets in SIZES[:2]:
        for scenario in SCENARIOS:
            yield Row(standard_mix(cases, targets), scenario, Terms(repeats=repeats))


def size_rows() -> Iterator[Row]:
    """Yields the standard mix by size and margin."""
    for cases, repeats, targets in SIZES:
        for margin in MARGINS:
            for scenario in SCENARIOS:
                yield Row(standard_mix(cases, targets), scenario, Terms(repeats=repeats, margin=margin))


def look_rows() -> Iterator[Row]:
    """Yields the standard mix of 20 Cases by look, from the second on."""
    for look in range(2, 6):
        for scenario in SCENARIOS:
            yield Row(standard_mix(20), scenario, Terms(repeats=5, look=look))


def other_rows() -> Iterator[Row]:
    """Yields a loss of just the margin, targets as people pick them, screening, and the counts rule."""
    usual = standard_mix(20)
    for repeats in (5, 3):
        yield Row(usual, "fix and lose the margin", Terms(repeats=repeats))
        for scenario in ("unchanged", "fix", "fix and break two"):
            yield Row(usual, scenario, Terms(repeats=repeats), picked=True)
    for scenario in SCENARIOS:
        yield Row(usual, scenario, Terms(repeats=5, screening=2))
    for scenario in SCENARIOS:
        yield Row(usual, scenario, Terms(repeats=3, rule="counts"))


def drawn_rows(mixes: int, seed: int) -> Iterator[Row]:
    """Yields mixes that the seed draws; of noisy ones also a fix that is run eight times."""
    for kind in ("drawn", "noisy"):
        for number in range(1, mixes + 1):
            mix = drawn_mix(kind, number, 20, seed)
            for scenario in (*SCENARIOS, "fix and lose the margin"):
                yield Row(mix, scenario, Terms(repeats=5))
            if kind == "noisy":
                yield Row(mix, "fix", Terms(repeats=8))


def line(*cells: object) -> None:
    """Prints one line of a Markdown table."""
    widths = (18, 5, 7, 7, 6, 4, 23, 6, 9, 10, 12, 6)
    print("|", " | ".join(str(c).rjust(w) for c, w in zip(cells, widths, strict=True)), "|", flush=True)


def print_row(row: Row, found: Counter[str]) -> None:
    """Prints a row's shares; for a fix also how often any test could exclude the margin."""
    t, shares = row.terms, (f"{found[r] / found.total():.3f}" for r in RESULTS)
    most = f"{row.mix.best_possible(t):.2f}" if row.scenario == "fix" and t.rule == "statistical" else ""
    targets = "" if row.picked else row.mix.targets
    line(row.label, len(row.mix.rates), targets, t.repeats, t.margin, t.look, row.scenario, *shares, most)


def print_limits(rows: Iterable[tuple[Row, Counter[str]]]) -> bool:
    """Prints the largest share of each limited result. Returns whether all limits hold, give or take three errors."""
    good, judged = True, [(r, f) for r, f in rows if r.terms.rule == "statistical"]
    print()
    for scenario, result, most in LIMITS:
        shares = [f[result] / f.total() for r, f in judged if r.scenario == scenario]
        if not shares:
            continue
        draws = judged[0][1].total()
        held = max(shares) <= most + 3 * math.sqrt(most * (1 - most) / draws)
        good = good and held
        over, mean = sum(share > most for share in shares), sum(shares) / len(shares)
        print(
            f"{scenario}: `{result}` in at most {max(shares):.3f} of a row, {mean:.3f} on average; the limit is "
            f"{most:.2f}, and {over} of {len(shares)} rows are above it"
        )
    return good


def _share(function: partial[bool], draws: int, seed: str) -> float:
    rng = random.Random(seed)
    return sum(function(rng=rng) for _ in range(draws)) / draws


def print_rounds(pool: ProcessPoolExecutor, draws: int, seed: int) -> None:
    """Prints what whole Rounds come to by the rules alone."""
    usual = standard_mix(20)
    asked = {
        "eight changes without effect, 20 Cases x 5: at least one false keep": partial(
            keeps_one, usual, Terms(repeats=5), 8
        ),
        "the same, two of four targets screening": partial(keeps_one, usual, Terms(repeats=5, screening=2), 8),
        "eight changes without effect, 20 Cases x 3": partial(keeps_one, usual, Terms(repeats=3), 8),
        "a true fix passes its look and the final validation, 20 Cases x 5": partial(
            completes, usual, Terms(repeats=5)
        ),
        "a true fix, 20 Cases x 8": partial(completes, usual, Terms(repeats=8)),
        "a true fix, 12 Cases x 10, three targets": partial(completes, standard_mix(12, 3), Terms(repeats=10)),
    }
    print()
    waiting = {name: pool.submit(_share, function, draws, f"{seed}/{name}") for name, function in asked.items()}
    for name, share in waiting.items():
        print(f"{name}: {share.result():.3f}", flush=True)


def print_table(pool: ProcessPoolExecutor, given: argparse.Namespace) -> bool:
    """Prints everything that the rules alone say. Returns whether the limits hold."""
    parts = {"sizes": size_rows, "looks": look_rows, "others": other_rows}
    parts |= {"drawn": partial(drawn_rows, given.mixes, given.seed), "quick": quick_rows}
    rows = [row for name, part in parts.items() if name in given.parts for row in part()]
    if rows:
        line("mix", "cases", "targets", "repeats", "margin", "look", "change", *RESULTS, "most")
        line(*("---:" for _ in range(12)))
    found = []
    for row, counts in zip(rows, pool.map(partial(measured, draws=given.draws, seed=given.seed), rows), strict=True):
        print_row(row, counts)
        found.append((row, counts))
    good = print_limits(found)
    if "rounds" in given.parts:
        print_rounds(pool, given.draws, given.seed)
    return good


def main() -> None:
    """Reads the command line and prints what it asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mixes", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--through-tools", type=int, default=0, metavar="N", help="draws through compare_and_gate")
    parser.add_argument("--rounds", type=int, default=0, metavar="N", help="whole Rounds through finish_round")
    parser.add_argument("--scale", action="store_true", help="times compare_and_gate on 100 to 1,000 Cases")
    parser.add_argument("--table", action="store_true", help="prints the table beside what else is asked for")
    parser.add_argument("--parts", nargs="+", choices=(*PARTS, "quick"), default=PARTS, help="parts of the table")
    given = parser.parse_args()
    good = True
    with ProcessPoolExecutor(given.jobs) as pool:
        if given.table or not (given.through_tools or given.rounds or given.scale):
            good = print_table(pool, given)
    if given.through_tools or given.rounds or given.scale:
        from benchmarks import gate_rounds, gate_through_tools  # noqa: PLC0415 - brings the builders of the tests

        if given.through_tools:
            gate_through_tools.draws(given.through_tools, random.Random(given.seed))
        if given.rounds:
            gate_rounds.print_rounds(given.rounds, given.seed)
        if given.scale:
            gate_through_tools.scale()
    sys.exit(not good)


if __name__ == "__main__":
    main()
