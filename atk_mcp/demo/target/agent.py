"""Sorts one support ticket into a queue by what prompt.txt and rules.txt say, most of the time."""  # noqa: INP001 - a script

from __future__ import annotations

import hashlib
import sys

RELIABILITY = 0.97
"""How often the agent does what its rules say. Otherwise it names another queue, as a model would now and then."""


def main() -> None:
    """Reads the ticket named on the command line and writes its queue."""
    ticket_file, repeat, output_folder = sys.argv[1:4]
    prompt, rules, ticket = (_read(name) for name in ("prompt.txt", "rules.txt", ticket_file))
    chance = Chance(prompt, rules, ticket, repeat, run_number(output_folder))
    sys.stdout.write(answer(prompt, rules, ticket, chance) + "\n")


def answer(prompt: str, rules: str, ticket: str, chance: Chance) -> str:
    """Returns the queue for a ticket."""
    queues = listed(setting(prompt, "Queues"))
    decided = matching_queue(rules, ticket) or setting(prompt, "When no line has one")
    if decided not in queues:
        return chance.pick(queues)
    if chance.draw() < RELIABILITY:
        return decided
    return chance.pick([queue for queue in queues if queue != decided])


def matching_queue(rules: str, ticket: str) -> str:
    """Returns the queue of the first rule with a word of the ticket, or nothing."""
    words = f" {' '.join(''.join(c if c.isalnum() else ' ' for c in ticket.lower()).split())} "
    for line in rules.splitlines():
        queue, colon, triggers = line.partition(":")
        if colon and not line.startswith("#") and any(f" {word} " in words for word in listed(triggers)):
            return queue.strip()
    return ""


def setting(prompt: str, name: str) -> str:
    """Returns what the prompt says after `name:`."""
    for line in prompt.splitlines():
        if line.startswith(f"{name}:"):
            return line.partition(":")[2].strip()
    return ""


def listed(text: str) -> list[str]:
    """Returns the parts of a list with commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def run_number(output_folder: str) -> str:
    """Returns the number in the name of the run's folder, so that every run draws anew."""
    return next((part.split("-")[1] for part in reversed(output_folder.split("/")) if part.startswith("batch-")), "0")


class Chance:
    """Chance that can be repeated: it follows from what the agent was given, the repeat and the run."""

    def __init__(self, *what: str) -> None:
        """Begins a series of draws that belongs to `what`."""
        self._what = "\0".join(what)
        self._count = 0

    def draw(self) -> float:
        """Returns the next number, at least 0 and below 1."""
        self._count += 1
        found = hashlib.sha256(f"{self._what}\0{self._count}".encode()).digest()
        return int.from_bytes(found[:7], "big") / 2**56

    def pick(self, options: list[str]) -> str:
        """Returns one of the options, each as likely as the others."""
        return options[int(self.draw() * len(options))]


def _read(name: str) -> str:
    with open(name, encoding="utf-8") as file:
        return file.read()


if __name__ == "__main__":
    main()
