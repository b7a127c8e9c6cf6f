"""Plays the client's part: reads what failed, finds what the failures share, and writes edits of the rules."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

_MAJORITY = 0.5
MOST_PROBLEMS = 2


@dataclass(frozen=True)
class Attempt:
    """One attempt at a Case, judged."""

    record_id: str
    case_id: str
    passed: bool


@dataclass(frozen=True)
class Problem:
    """Cases of one queue that mostly fail, and the word that they share and the others do not."""

    queue: str
    word: str
    case_ids: tuple[str, ...]
    record_ids: tuple[str, ...]
    """Failed attempts, one for each Case."""


def mostly_failing(attempts: Iterable[Attempt]) -> dict[str, str]:
    """Returns the Cases of which more than half of the attempts fail, each with the Record of its first failure."""
    by_case: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        by_case[attempt.case_id].append(attempt)
    failed = {case_id: [a for a in found if not a.passed] for case_id, found in by_case.items()}
    return {c: found[0].record_id for c, found in failed.items() if len(found) > _MAJORITY * len(by_case[c])}


def find_problems(failing: Mapping[str, str], texts: Mapping[str, str], queues: Mapping[str, str]) -> list[Problem]:
    """Returns at most two problems, the one with the most Cases first.

    Args:
        failing: Case id → a Record that shows the failure.
        texts: Case id → ticket, of all Cases.
        queues: Case id → the expected queue, of all Cases.
    """
    groups: dict[str, list[str]] = defaultdict(list)
    for case_id in failing:
        groups[queues[case_id]].append(case_id)
    largest = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))[:MOST_PROBLEMS]
    return [
        Problem(
            queue=queue,
            word=telling_word([texts[c] for c in ids], [text for c, text in texts.items() if c not in failing]),
            case_ids=tuple(ids),
            record_ids=tuple(failing[c] for c in ids),
        )
        for queue, ids in largest
    ]


def telling_word(these: Sequence[str], others: Sequence[str]) -> str:
    """Returns the word that the largest share of these tickets has beyond the share of the others."""
    having, elsewhere = _having(these), _having(others)
    return min(having, key=lambda word: (elsewhere[word] / (len(others) or 1) - having[word] / len(these), word))


def add_word(rules: str, problem: Problem) -> str:
    """Returns the rules with the problem's word added to its queue: the edit that a careful person makes."""
    start = f"{problem.queue}:"
    lines = [f"{line}, {problem.word}" if line.startswith(start) else line for line in rules.splitlines()]
    return "\n".join(lines) + "\n"


def add_greedy_rule(rules: str, problem: Problem) -> str:
    """Returns the rules with a line above all others that takes far too many tickets: the edit of a hasty person."""
    return f"{problem.queue}: {problem.word}, not, cannot\n{rules}"


def add_comment(rules: str, problem: Problem) -> str:
    """Returns the rules with a remark that changes nothing about how the agent decides."""
    return f"{rules}# to do: {problem.word}\n"


def _having(texts: Sequence[str]) -> Counter[str]:
    """Returns how many of the tickets have each word."""
    return Counter(word for text in texts for word in _words(text))


def _words(text: str) -> set[str]:
    return set("".join(c if c.isalpha() else " " for c in text.lower()).split())
