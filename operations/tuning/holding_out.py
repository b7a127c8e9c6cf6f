"""Tells whether something may hold a holdout Case: by its names, by what it was made of, and by what its texts say.

Texts are compared without case, spacing, punctuation, escapes and compatibility forms, whole and within one another, so
that a holdout that was renamed, wrapped in a prompt, stored in another dataset or imported again is still known. One
that was told in other words is not.
"""

from __future__ import annotations

import html
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

WITHIN = 24
"""Letters and digits from which on a text within another one is no chance; shorter ones have to be the whole text."""

_DEEPEST = 50
"""Levels of a JSON value that are looked into; no input of a Case is nested as deeply by anybody who means it."""


_ESCAPE = re.compile(r"\\+(?:u([0-9a-fA-F]{4})|[nrtbf])")


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
    """What a text may hold."""
    _own: dict[str, None] = field(default_factory=dict)
    """What a text may be a part of: it is no holdout's alone that all are told."""

    def add(self, names: Iterable[Names], inputs: Iterable[Any], common: Iterable[str] = ()) -> None:
        """Takes one holdout Case.

        Args:
            names: What it is called, and what its origin is.
            inputs: Its input, as it is and as it is masked.
            common: Plain texts that Cases of the same dataset have which are no holdout: what all of them are told.
        """
        self.cases += 1
        for one in names:
            for what, value in _named(one):
                self._names.setdefault((what, value), what)
        shared = set(common)
        for given in inputs:
            own = [leaf for leaf in leaves_of(given) if leaf not in shared]
            forms = {form_of(given), *own} - {""}
            self._whole |= forms
            self._long |= dict.fromkeys(sorted(form for form in forms if len(form) >= WITHIN))
            self._own |= dict.fromkeys(leaf for leaf in own if len(leaf) >= WITHIN)

    def why(self, names: Iterable[Names], asked: Iterable[Any], said: Iterable[Any]) -> str | None:
        """Returns by what something is like a holdout Case, or None where it is like none.

        Args:
            names: What it is called, and what its Cases and origins are called.
            asked: Values that the agent was asked, of any length.
            said: Everything else that was said; here a short text says nothing.
        """
        for one in names:
            for what, value in _named(one):
                if (what, value) in self._names:
                    return f"its {what} is that of a holdout Case"
        if not self._whole:
            return None
        for given in asked:
            if self._whole & _forms(given):
                return "it was asked the input of a holdout Case"
            if self._holds(given):
                return "it was asked the input of a holdout Case, or a part of it"
        if any(map(self._holds, said)):
            return "it holds the input of a holdout Case, or a part of it"
        return None

    def _holds(self, value: Any) -> bool:  # noqa: ANN401 - JSON
        for plain in _forms(value):
            if len(plain) >= WITHIN and (any(x in plain for x in self._long) or any(plain in x for x in self._own)):
                return True
        return False


def form_of(value: Any) -> str:  # noqa: ANN401 - JSON
    """Returns what two inputs share that ask the same, however they are written; nothing for one that asks nothing."""
    return "".join(leaves_of(value))


def leaves_of(value: Any) -> list[str]:  # noqa: ANN401 - JSON
    """Returns the plain texts in a value, in order, without empty ones."""
    return [plain for leaf in texts_of(value) if (plain := plain_text(leaf))]


def _forms(value: Any) -> set[str]:  # noqa: ANN401 - JSON
    return {form_of(value), *leaves_of(value)} - {""}


def plain_text(text: str) -> str:
    """Returns the letters and digits of a text in one case and one form of each; one without any as it is.

    What JSON or HTML write for a character stands for it, since an input is often put into a prompt in that way.
    """
    if "\\" in text:
        text = _ESCAPE.sub(_unescaped, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if "&" in text:
        text = html.unescape(text)
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", folded))) or text.strip()


def _unescaped(found: re.Match[str]) -> str:
    return chr(int(found[1], 16)) if found[1] else " "


def texts_of(value: Any, depth: int = 0) -> Iterator[str]:  # noqa: ANN401 - JSON
    """Yields the texts and numbers of a value in order; of a text that is JSON, what it holds."""
    if isinstance(value, str):
        inner = _opened(value) if depth < _DEEPEST else None
        if inner is None:
            yield value
        else:
            yield from texts_of(inner, depth + 1)
    elif isinstance(value, Mapping) and depth < _DEEPEST:
        for name in sorted(value, key=str):
            yield from texts_of(value[name], depth + 1)
    elif isinstance(value, list | tuple) and depth < _DEEPEST:
        for item in value:
            yield from texts_of(item, depth + 1)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def _opened(text: str) -> Any:  # noqa: ANN401 - JSON
    if text.lstrip()[:1] not in ("{", "[", '"'):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


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
