"""Prints how often the gate is right and wrong on agents whose true pass rates are known (seeded Monte-Carlo).

    python benchmarks/gate_errors.py [--draws 1000] [--seed 1] [--mixes 3] [--quick] [--through-tools 200] [--scale]

The mix: 60 % of the Cases pass at .95, 20 % at .6, and 20 % are targets that pass at .2. `--mixes` adds that many
mixes whose rates are drawn from the seed. `--through-tools` draws as often again and stores each draw as two batches of
a Round, judges them and calls compare_and_gate; `--scale` times that call from 100 to 1,000 Cases. Both alone print
nothing else.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from operations.tuning.gate import GateQuestion, decide

RESULTS = ("pass", "no_effect", "regression", "insufficient")
SCENARIOS = ("unchanged", "fix", "fix and break two", "all worse")


@dataclass(frozen=True)
class Mix:
    """True pass rates of the Cases before the change; the first `targets` of them are the targets."""

    name: str
    rates: tuple[float, ...]
    targets: int

    def changed(self, scenario: str) -> tuple[float, ...]:
        """Returns the rates after the change: targets at .8, the two steadiest others at .2, or all a third lower."""
        after = list(self.rates)
        if scenario.startswith("fix"):
            after[: self.targets] = [0.8] * self.targets
        if scenario == "fix and break two":
            for index in sorted(range(self.targets, len(after)), key=lambda i: -after[i])[:2]:
                after[index] = 0.2
        return tuple(r * 2 / 3 for r in after) if scenario == "all worse" else tuple(after)


def standard_mix(cases: int, targets: int | None = None) -> Mix:
    named = round(cases * 0.2) if targets is None else targets
    middling = round(cases * 0.2)
    rates = (0.2,) * named + (0.6,) * middling + (0.95,) * (cases - named - middling)
    return Mix("standard", rates, named)


def drawn_mix(number: int, cases: int, rng: random.Random) -> Mix:
    named = round(cases * 0.2)
    rest = tuple(rng.choice((rng.uniform(0.85, 1.0), rng.uniform(0.4, 0.9))) for _ in range(cases - named))
    return Mix(f"drawn {number}", tuple(rng.uniform(0.1, 0.3) for _ in range(named)) + rest, named)


def table(rates: tuple[float, ...], repeats: int, rng: random.Random) -> dict[str, tuple[str, ...]]:
    return {
        f"c{i}": tuple("pass" if rng.random() < rate else "fail" for _ in range(repeats))
        for i, rate in enumerate(rates)
    }


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a plan fixes for a comparison."""

    repeats: int
    margin: float = 0.15
    look: int = 1
    rule: str = "statistical"
    mode: str = "incremental"
    screening: int = 0
    """How many of the targets only screen."""


def result_of(mix: Mix, left, right, terms: Terms, targets: tuple[str, ...] | None = None) -> str:
    """Returns the gate's result for two tables."""
    cases = tuple(f"c{i}" for i in range(len(mix.rates)))
    named = cases[: mix.targets] if targets is None else targets
    asked = GateQuestion(
        rule=terms.rule,
        mode=terms.mode,
        primary_dimension="correct",
        required_dimensions=("correct",),
        left={"correct": left},
        right={"correct": right},
        case_ids=cases,
        repeats=terms.repeats,
        target_case_ids=named,
        protected_case_ids=tuple(c for c in cases if c not in named),
        screening_case_ids=named[: terms.screening],
        margin=terms.margin,
        look=terms.look,
    )
    found = decide(asked)
    return "screened out" if found.screened_out else found.result


@dataclass(frozen=True)
class Bench:
    """Draws outcomes and counts results."""

    draws: int
    rng: random.Random

    def compared(self, mix: Mix, after: tuple[float, ...], terms: Terms) -> str:
        """Returns the result of one comparison, both sides run afresh."""
        left, right = (table(rates, terms.repeats, self.rng) for rates in (mix.rates, after))
        return result_of(mix, left, right, terms)

    def rates(self, mix: Mix, scenario: str, terms: Terms) -> Counter[str]:
        after = mix.changed(scenario)
        return Counter(self.compared(mix, after, terms) for _ in range(self.draws))

    def picked_by_failure(self, mix: Mix, terms: Terms) -> Counter[str]:
        """Returns the results of an unchanged agent whose targets are the Cases that failed most in a run before.

        That run is no side of the comparison: both run afresh after the targets were named.
        """
        found: Counter[str] = Counter()
        for _ in range(self.draws):
            before, left, right = (table(mix.rates, terms.repeats, self.rng) for _ in range(3))
            worst = sorted(before, key=lambda c: before[c].count("pass"))[: mix.targets]
            found[result_of(mix, left, right, terms, tuple(worst))] += 1
        return found

    def false_keeps(self, mix: Mix, terms: Terms, candidates: int) -> float:
        """Returns the share of Rounds in which at least one of `candidates` changes without effect passes.

        As in a Round, one run of the parent is the left side of all of them; a look that screening ends is not charged.
        """
        kept = 0
        for _ in range(self.draws):
            left, look = table(mix.rates, terms.repeats, self.rng), 1
            for _ in range(candidates):
                right = table(mix.rates, terms.repeats, self.rng)
                result = result_of(mix, left, right, replace(terms, look=look))
                look += result != "screened out"
                if result == "pass":
                    kept += 1
                    break
        return kept / self.draws

    def completes(self, mix: Mix, terms: Terms) -> float:
        """Returns how often a true fix passes its first look and then the final validation."""
        after = mix.changed("fix")
        both = [terms, replace(terms, mode="final")]
        return sum(all(self.compared(mix, after, t) == "pass" for t in both) for _ in range(self.draws)) / self.draws


def line(*cells: object) -> None:
    widths = (12, 6, 8, 7, 5, 18, 8, 10, 11, 13)
    print(" | ".join(str(c).rjust(w) for c, w in zip(cells, widths, strict=True)), flush=True)


def row(mix: Mix, scenario: str, found: Counter[str], terms: Terms) -> None:
    found["no_effect"] += found.pop("screened out", 0)
    shares = (f"{found[r] / found.total():.3f}" for r in RESULTS)
    named = mix.name if terms.rule == "statistical" else terms.rule
    named = f"{terms.screening} screen" if terms.screening else named
    line(named, len(mix.rates), terms.repeats, terms.margin, terms.look, scenario, *shares)


def standard_rows(bench: Bench) -> None:
    mix = standard_mix(20)
    for repeats in (5, 3):
        terms = Terms(repeats=repeats)
        for scenario in SCENARIOS:
            row(mix, scenario, bench.rates(mix, scenario, terms), terms)
        row(mix, "targets by failure", bench.picked_by_failure(mix, terms), terms)


def planning_rows(bench: Bench) -> None:
    """Prints later looks, and other sizes and margins, for people who plan."""
    mix = standard_mix(20)
    for look in range(2, 6):
        terms = Terms(repeats=5, look=look)
        row(mix, "fix", bench.rates(mix, "fix", terms), terms)
    sizes = ((10, 5, 0.15), (10, 10, 0.15), (12, 10, 0.15), (20, 5, 0.1), (40, 3, 0.1), (40, 5, 0.1), (60, 5, 0.05))
    for cases, repeats, margin in sizes:
        terms = Terms(repeats=repeats, margin=margin)
        for scenario in SCENARIOS[:3]:
            row(standard_mix(cases), scenario, bench.rates(standard_mix(cases), scenario, terms), terms)
    screened = Terms(repeats=5, screening=2)
    for scenario in SCENARIOS[:3]:
        row(mix, scenario, bench.rates(mix, scenario, screened), screened)
    counts = Terms(repeats=3, rule="counts")
    for scenario in SCENARIOS[:2]:
        row(mix, scenario, bench.rates(mix, scenario, counts), counts)


def rounds(bench: Bench) -> None:
    for terms, named in ((Terms(repeats=5), ""), (Terms(repeats=5, screening=2), ", two of four targets screening")):
        keeps = bench.false_keeps(standard_mix(20), terms, candidates=8)
        print(f"eight changes without effect{named}, at least one false keep: {keeps:.3f}", flush=True)
    for cases, repeats, targets in ((20, 5, 4), (12, 10, 3)):
        done = bench.completes(standard_mix(cases, targets), Terms(repeats=repeats))
        print(f"a true fix passes its look and the final validation, {cases} Cases x {repeats}: {done:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mixes", type=int, default=3)
    parser.add_argument("--through-tools", type=int, default=0, metavar="N", help="draws through compare_and_gate")
    parser.add_argument("--scale", action="store_true", help="times compare_and_gate on 100 to 1,000 Cases")
    parser.add_argument("--quick", action="store_true", help="only the standard mix at its first look")
    given = parser.parse_args()
    bench = Bench(given.draws, random.Random(given.seed))
    if given.through_tools or given.scale:
        from benchmarks import gate_through_tools  # noqa: PLC0415 - brings the builders of the tests

        if given.through_tools:
            gate_through_tools.draws(given.through_tools, bench.rng)
        if given.scale:
            gate_through_tools.scale()
        return
    line("mix", "cases", "repeats", "margin", "look", "agent", *RESULTS)
    standard_rows(bench)
    if given.quick:
        return
    for number in range(1, given.mixes + 1):
        mix = drawn_mix(number, 20, bench.rng)
        for scenario in SCENARIOS:
            row(mix, scenario, bench.rates(mix, scenario, Terms(repeats=5)), Terms(repeats=5))
    planning_rows(bench)
    rounds(bench)


if __name__ == "__main__":
    main()
