"""The demo's Cases: support tickets and the queues they belong to, made by a seed."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields

_COVERED: Mapping[str, Sequence[str]] = {
    "billing": (
        "Invoice {number} shows {amount} euros, and we agreed on less.",
        "We were charged {amount} euros twice for order {number}.",
        "The invoice for order {number} does not name our company.",
        "I cannot open the invoice of {month}.",
    ),
    "access": (
        "I cannot log in since {month}.",
        "{name} is locked out of the account after {few} tries.",
        "My colleague {name} could not log in and is not amused.",
        "{name} is locked out and cannot work.",
    ),
    "shipping": (
        "The parcel {number} has not arrived.",
        "Delivery {number} did not come to our street.",
        "When does parcel {number} leave? {name} is waiting.",
        "Our delivery of {month} is not complete.",
    ),
    "sales": (
        "We cannot wait: please send {name} a quote for {few} licences.",
        "How much are {few} more seats?",
        "We need a quote by {month}.",
        "Why can {name} not get {few} seats for a trial?",
    ),
    "technical": (
        "The app crashes when {name} prints order {number}.",
        "Since the update of {month} the window freezes.",
        "It crashes {few} times a day.",
        "The export freezes at {amount} rows.",
    ),
}
"""Tickets that the target's rules know. Some say `not` or `cannot`, as people with a problem do."""

_REFUNDS = (
    "Please refund order {number}.",
    "I want a refund of {amount} euros.",
    "Where is the refund that {name} promised in {month}?",
    "A refund for order {number}, please, I changed my mind.",
    "{name} asks for a refund of {amount} euros.",
    "No refund came for {number}.",
)
_ERRORS = (
    "Error {number} when {name} saves.",
    "The report ends with error {number}.",
    "An error box says {number} and nothing else.",
    "{name} sees error {number} at every start.",
    "Since {month} there is an error on the first page.",
)
_NAMES = ("Ana", "Bo", "Chen", "Dora", "Emre", "Fatima", "Gus", "Hana", "Ivo", "Jun", "Kofi", "Lea")
_MONTHS = ("January", "March", "April", "June", "August", "October", "November")


@dataclass(frozen=True)
class Ticket:
    """One Case as a row of the dataset's source."""

    id: str
    input: str
    expected: str
    usage: str


def make_tickets(seed: int) -> list[Ticket]:
    """Returns 24 to 26 tickets, the same for the same seed: most are known to the rules, refunds and errors not.

    Every queue has three known tickets; they are for protection. The others are for optimization.
    """
    chance = random.Random(seed)  # noqa: S311 - Cases that can be made again, no secrets
    known = [(text, queue) for queue, texts in _COVERED.items() for text in chance.sample(texts, 3)]
    unknown = [(text, "billing") for text in chance.sample(_REFUNDS, chance.choice((5, 6)))]
    unknown += [(text, "technical") for text in chance.sample(_ERRORS, chance.choice((4, 5)))]
    rows = [(*row, "protection") for row in known] + [(*row, "optimization") for row in unknown]
    chance.shuffle(rows)
    return [
        Ticket(f"ticket-{n:02}", _filled(text, chance), queue, usage) for n, (text, queue, usage) in enumerate(rows, 1)
    ]


def as_csv(tickets: Sequence[Ticket]) -> str:
    """Returns tickets as the CSV that `store_dataset` reads without a mapping."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([field.name for field in fields(Ticket)])
    writer.writerows(astuple(ticket) for ticket in tickets)
    return text.getvalue()


def _filled(text: str, chance: random.Random) -> str:
    return text.format(
        number=chance.randrange(10_000, 99_999),
        amount=chance.randrange(12, 480),
        name=chance.choice(_NAMES),
        month=chance.choice(_MONTHS),
        few=chance.randrange(2, 9),
    )
