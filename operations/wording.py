"""Words that follow a number, for sentences that a person reads."""

from __future__ import annotations


def counted(number: int, noun: str, ending: str = "s") -> str:
    """Returns "1 Case" or "2 Cases"; `ending` is what the plural adds to the noun."""
    return f"{number} {noun}" + ("" if number == 1 else ending)


def either(number: int, one: str, several: str) -> str:
    """Returns the form of a word that goes with a number: `one` with 1, and `several` with all others."""
    return one if number == 1 else several
