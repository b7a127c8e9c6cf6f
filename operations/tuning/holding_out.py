"""Tells whether something may hold a holdout Case: by its names, by what it was made of, and by what its texts say.

Texts are compared as `operations.tuning.readings` reads them, whole, in parts and within one another, so that a holdout
that was renamed, wrapped in a prompt, cut, encoded, stored in another dataset or imported again is still known. One
that was told in other words is not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from operations.tuning.readings import form_of, forms_of, leaves_of, names_of, plain_text

WITHIN = 24
"""Letters and digits from which on a text within another one is no chance; shorter ones have to be the whole text."""

PART = 40
"""Letters and digits of an input that nobody writes in a row by chance: about eight words."""

STEP = 20
"""How far the parts that are looked for lie apart; so `PART + STEP` letters in a row, about twelve words, are always
known again."""


@dataclass(frozen=True, slots=True)
class Names:
    """What something is called and came from. A name that is not known is None and is like no other."""

    case_id: str | None = None
    fingerprint: str | None = None
    source_group: str | None = None
    record_id: str | None = None
    trace: tuple[str, str] | None = None
    """Namespace and trace id."""
    session: tuple[str, str] | None = None


@dataclass(slots=True)
class HeldOut:
    """Every holdout Case of a project, in the forms in which it may come back."""

    cases: int = 0
    _names: dict[tuple[str, Any], str] = field(default_factory=dict)
    _whole: set[str] = field(default_factory=set)
    _long: dict[str, None] = field(default_factory=dict)
    """What a text may hold, of what no part is looked for."""
    _parts: set[str] = field(default_factory=set)
    """Pieces of `PART` letters of what a text may hold."""
    _own: dict[str, None] = field(default_factory=dict)
    """What a text may be a part of: it is no holdout's alone that all are told."""
    _answers: dict[str, None] = field(default_factory=dict)

    def add(
        self,
        names: Iterable[Names],
        inputs: Iterable[Any],
        common: Collection[str] = frozenset(),
        answers: Iterable[str] = (),
    ) -> None:
        """Takes one holdout Case.

        Args:
            names: What it is called, and what its origin is.
            inputs: Its input, as it is and as it is masked.
            common: Plain texts that Cases of the same dataset have which are no holdout, what all of them are told,
                and parts of texts that are the wording of other Cases' inputs too.
            answers: Plain texts of what is expected of it, and of no other Case.
        """
        self.cases += 1
        for one in names:
            for what, value in _named(one):
                self._names.setdefault((what, value), what)
        for given in inputs:
            own = [leaf for leaf in leaves_of(given) if leaf not in common]
            forms = {form_of(given), *own} - {""}
            self._whole |= forms
            for form in sorted(form for form in forms if len(form) >= WITHIN):
                parts = [part for part in parts_of(form) if part not in common] if form in own else []
                self._parts.update(parts)
                if not parts:
                    self._long[form] = None
            self._own |= dict.fromkeys(leaf for leaf in own if len(leaf) >= WITHIN)
        self._answers |= dict.fromkeys(sorted(leaf for leaf in answers if len(leaf) >= WITHIN))

    def add_attached(self, texts: Iterable[str], common: Collection[str] = frozenset()) -> None:
        """Takes the text of a file that only holdout Cases have, as it is and as it is masked; a part of it is enough.

        Args:
            texts: The text.
            common: As `add` takes it.
        """
        for plain in map(plain_text, texts):
            self._parts.update(part for part in parts_of(plain) if part not in common)
            if WITHIN <= len(plain) < PART:
                self._long[plain] = None

    def why(self, names: Iterable[Names], asked: Iterable[Any], said: Iterable[Any]) -> str | None:
        """Returns by what something is like a holdout Case, or None where it is like none.

        Args:
            names: What it is called, and what its Cases and origins are called.
            asked: Values that the agent was asked, of any length.
            said: Everything else that was said, in order; here a short text says nothing. What was said piece by
                piece is read as one text as well.
        """
        for one in names:
            for what, value in _named(one):
                if (what, value) in self._names:
                    return f"its {what} is that of a holdout Case"
        if not self.cases:
            return None
        for given in asked:
            forms = _forms(given)
            if not self._whole.isdisjoint(forms):
                return "it was asked the input of a holdout Case"
            if (found := self._found(forms)) is not None:
                return f"it was asked {found}"
        pieces: list[str] = []
        for given in said:
            forms = _forms(given)
            pieces.append(forms[0])
            if (found := self._found(forms)) is not None:
                return f"it holds {found}"
        found = self._found(["".join(pieces)] if len(pieces) > 1 else [])
        return None if found is None else f"it holds {found}"

    def _found(self, forms: Iterable[str]) -> str | None:
        for plain in dict.fromkeys(forms):
            if len(plain) < WITHIN:
                continue
            if any(x in plain for x in self._long) or parts_in(plain, self._parts, once=True):
                return _INPUT
            if any(plain in x for x in self._own):
                return _INPUT
            if any(x in plain for x in self._answers):
                return "the expected answer of a holdout Case"
        return None


_INPUT = "the input of a holdout Case, or a part of it"


def parts_of(plain: str) -> Iterator[str]:
    """Yields the pieces of `PART` letters of a plain text, `STEP` apart."""
    yield from (plain[at : at + PART] for at in range(0, len(plain) - PART + 1, STEP))


def parts_in(plain: str, parts: Collection[str], *, once: bool = False) -> set[str]:
    """Returns those of some pieces of `PART` letters that a plain text holds; with `once` the first one only."""
    found: set[str] = set()
    if parts:
        for at in range(len(plain) - PART + 1):
            if (piece := plain[at : at + PART]) in parts:
                found.add(piece)
                if once:
                    break
    return found


def _forms(value: Any) -> list[str]:  # noqa: ANN401 - JSON
    """Returns the plain forms of a value, that of the whole first, and those of long names of its fields."""
    return [*forms_of(value), *(plain_text(name) for name in names_of(value) if len(name) >= WITHIN)]


def _named(names: Names) -> Iterator[tuple[str, Any]]:
    known = {
        "Case id": names.case_id,
        "fingerprint": names.fingerprint,
        "source group": names.source_group,
        "Record": names.record_id,
        "trace": names.trace,
        "session": names.session,
    }
    yield from ((what, value) for what, value in known.items() if value is not None)
