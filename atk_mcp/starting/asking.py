"""Puts questions to a person at a terminal, or takes every default where nobody is to be asked."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, TypeVar

from atk_mcp.terminal import complain, neutralised, say
from storage.errors import AtkError, NextCall

_WIDTH = 100

T = TypeVar("T")


class NobodyToAsk(AtkError):
    """`atk init` asks questions, and there is no person to answer them."""

    message = (
        "`atk init` asks questions, and stdin is no terminal. Run it in a terminal, give --yes to take every default, "
        "or write the request yourself and give it to `atk call initialize_project`."
    )
    next_calls = (NextCall("initialize_project", supply={"arguments": "the whole configuration"}),)


class AnswersEnded(Exception):
    """The person closed the terminal's input before the last question."""


class Unusable(ValueError):
    """An answer that cannot be taken; its text says why and what can be."""


@dataclass
class Asking:
    """The dialogue: `yes` takes every default; `aside` keeps stdout free and talks on stderr."""

    yes: bool = False
    aside: bool = False
    answers: BinaryIO | None = None
    """Where answers are read; stdin unless given."""
    taken: dict[str, str] = field(default_factory=dict)
    """What was answered to each question, by its name."""

    def tell(self, text: str = "", *, indent: str = "") -> None:
        """Shows lines; long ones are wrapped."""
        width = min(_WIDTH, shutil.get_terminal_size().columns)
        for line in text.split("\n"):
            lines = textwrap.wrap(
                line,
                width,
                initial_indent=indent,
                subsequent_indent=indent,
                break_on_hyphens=False,
                break_long_words=False,
            )
            self.show("\n".join(lines or [""]))

    def show(self, text: str) -> None:
        """Shows text as it is."""
        (complain if self.aside else say)(text)

    def ask(self, name: str, question: str, default: str, check: Callable[[str], T]) -> T:
        """Returns what `check` makes of the answer; Enter is the default. It is asked again until it can be taken.

        Args:
            name: What the question is about, in a word.
            question: What is asked, without its mark.
            default: What Enter answers; it can be taken.
            check: Returns what an answer says.

        Raises:
            AnswersEnded: There are no more answers.
            Unusable: `yes` is set and the default cannot be taken.
        """
        while True:
            given = (
                default
                if self.yes
                else self._line(f"{question} [{default}]: " if default else f"{question}: ") or default
            )
            try:
                found = check(_typed(given))
            except (Unusable, AtkError) as why:
                if self.yes:
                    raise
                self.tell(str(why), indent="  ")
                continue
            self.taken[name] = given
            if self.yes:
                self.tell(f"{question}: {given}")
            return found

    def confirm(self, name: str, question: str, *, default: bool = True) -> bool:
        """Returns whether the person says yes."""
        return self.ask(name, f"{question} yes or no", "yes" if default else "no", _yes_or_no)

    def _line(self, prompt: str) -> str:
        stream = sys.stderr if self.aside else sys.stdout
        stream.write(neutralised(prompt))
        stream.flush()
        line = (self.answers or sys.stdin.buffer).readline()
        if not line.endswith(b"\n"):
            raise AnswersEnded
        return line.decode("utf-8", "replace").strip()


def person_at_terminal() -> bool:
    """Whether questions can be asked and answered here."""
    return os.isatty(0) and os.isatty(2)


def one_of(choices: Sequence[str]) -> Callable[[str], int]:
    """Returns a check that takes the number of a choice, from 1; its result counts from 0."""

    def check(given: str) -> int:
        if given.isascii() and given.isdigit() and 1 <= int(given[:4]) <= len(choices):
            return int(given[:4]) - 1
        raise Unusable(f"{given!r} is no choice. Give a number from 1 to {len(choices)}.")

    return check


def listed(given: str) -> list[str]:
    """Returns what an answer lists, separated by commas; `nothing` is the empty list."""
    if given.strip().lower() in {"nothing", "none", "-"}:
        return []
    return list(dict.fromkeys(part for x in given.split(",") if (part := x.strip())))


def _typed(given: str) -> str:
    if given.isprintable() and "\ufffd" not in given:
        return given
    raise Unusable("The answer holds a character that is no text, as an arrow key types it. Type it again.")


def _yes_or_no(given: str) -> bool:
    said = given.lower()
    if said in {"y", "yes"}:
        return True
    if said in {"n", "no"}:
        return False
    raise Unusable(f"{given!r} is neither yes nor no. Type one of them.")
