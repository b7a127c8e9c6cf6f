"""The project's own patterns of secrets, run by an engine whose time grows with the text and with nothing else."""

from __future__ import annotations

import importlib
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from storage.errors import AtkError, NextCall

MAX_PATTERNS = 50
"""Patterns of one project."""

MAX_LENGTH = 1_000
"""Characters of one pattern."""

MAX_PROGRAM = 10_000
"""Instructions of all patterns together: what bounds the time that a megabyte of text takes."""

MAX_MATCHES = 1_000
"""Matches of one pattern in one text. A text with more is masked as a whole."""

TEXT_SECONDS = 2.0
"""Processor time that one text may take. It is looked at after each match; a text that takes longer is masked whole."""

FREE_SECONDS = 60.0
"""Processor time that the patterns may take in one operation before their speed is looked at."""

SLOWEST = 1_000_000
"""Characters a second that the patterns have to manage beyond `FREE_SECONDS`."""

_LONGEST_SHOWN = 120
_PROBES = ("", " ", "a", "a1 _-é\n", "0", "\n")
_HALF = re.compile("[\ud800-\udfff]")
_ANCHOR = re.compile(r"[\^$]|\\[AzZ]|\(\?[a-zA-Z]*m")

AGAIN: tuple[NextCall, ...] = (
    NextCall("initialize_project", supply={"redact_patterns": "the patterns, corrected as the message says"}),
)


@dataclass(kw_only=True, eq=False)
class RedactPatternUnusable(AtkError):
    """A pattern cannot be used to find secrets."""

    message = (
        "The pattern {pattern} of redact_patterns cannot be used: {reason}. Patterns have RE2's syntax, which knows "
        "neither look-around nor back-references. Nothing was stored. Correct the pattern."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = AGAIN

    pattern: str
    reason: str


@dataclass(kw_only=True, eq=False)
class PatternEngineMissing(AtkError):
    """The project has patterns of its own, and the package that runs them is not installed."""

    message = (
        "The project's redact_patterns are run by the package google-re2, which is not installed. Nothing was read or "
        "stored, since it would not have been masked. Install it with `pip install 'atk-mcp[patterns]'`."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = AGAIN


@dataclass(kw_only=True, eq=False)
class PatternsTooSlow(AtkError):
    """The project's patterns have used up the time that one operation has for them."""

    message = (
        "The redact_patterns took {seconds} seconds for {megabytes} MB of text, which is too slow. Nothing was stored. "
        "Make them narrower: fewer alternatives, and no unbounded repetition before their end."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = (
        NextCall("initialize_project", {"revise": True}, {"redact_patterns": "narrower patterns"}),
    )

    seconds: float
    megabytes: float


def check_patterns(patterns: Sequence[str]) -> None:
    """Says whether the patterns can be used.

    Raises:
        RedactPatternUnusable: One cannot.
        PatternEngineMissing: There are some, and nothing to run them.
    """
    if len(patterns) > MAX_PATTERNS:
        raise RedactPatternUnusable(
            pattern=_shown(patterns[MAX_PATTERNS]), reason=f"a project has at most {MAX_PATTERNS} patterns"
        )
    size = 0
    for pattern in patterns:
        if problem := _problem(pattern):
            raise RedactPatternUnusable(pattern=_shown(pattern), reason=problem)
        size += int(_compiled(pattern).programsize)
        if size > MAX_PROGRAM:
            reason = f"it brings all of them to {size} instructions, and {MAX_PROGRAM} are allowed; repeat less in it"
            raise RedactPatternUnusable(pattern=_shown(pattern), reason=reason)


def _problem(pattern: str) -> str | None:
    if len(pattern) > MAX_LENGTH:
        return f"it is longer than {MAX_LENGTH} characters"
    if not pattern.strip():
        return "it is empty"
    try:
        compiled = _compiled(pattern)
    except UnicodeEncodeError:
        return "it holds half a surrogate pair"
    except _engine().error as error:
        said = error.args[0] if error.args else error
        return said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    if any(found.start() == found.end() for probe in _PROBES for found in compiled.finditer(probe)):
        return "it matches where there is no text"
    return None


def _shown(pattern: str) -> str:
    return pattern if len(pattern) <= _LONGEST_SHOWN else pattern[:_LONGEST_SHOWN] + "…"


def _engine() -> Any:  # noqa: ANN401 - an optional package without types
    try:
        return importlib.import_module("re2")
    except ImportError:
        raise PatternEngineMissing from None


@lru_cache(maxsize=2 * MAX_PATTERNS)
def _compiled(pattern: str) -> Any:  # noqa: ANN401 - an optional package without types
    engine = _engine()
    options = engine.Options()
    options.log_errors = False  # stderr would hold the pattern
    return engine.compile(pattern, options)


class Patterns:
    """The patterns of one project, and the time that they have taken. Make one for each operation."""

    def __init__(self, patterns: Sequence[str]) -> None:
        """Compiles the patterns, which `check_patterns` has found to be usable.

        Raises:
            PatternEngineMissing: There is nothing to run them.
        """
        self._each = [_compiled(pattern) for pattern in patterns]
        self._any = _compiled("|".join(f"(?:{pattern})" for pattern in patterns))
        self.anchored = any(_ANCHOR.search(pattern.replace("[^", "[")) for pattern in patterns)
        """Whether a match may depend on where the text begins or ends."""
        self._spent = 0.0
        self._seen = 0

    def found_in(self, text: str | bytes) -> bool:
        """Returns whether a pattern matches somewhere in the text."""
        try:
            return self._any.search(text) is not None
        except UnicodeEncodeError:
            return self._any.search(_encodable(str(text))) is not None

    def is_match(self, text: str) -> bool:
        """Returns whether a pattern matches the whole text."""
        return any(one.fullmatch(text) is not None for one in self._each)

    def replaced(self, text: str, mask: Callable[[str], str], kept: re.Pattern[str]) -> str:
        """Returns the text with `mask` of each match in its place; what `kept` matches is left as it is.

        Raises:
            PatternsTooSlow: The patterns have taken too long in this operation.
        """
        if not self.found_in(text):
            return text
        begun = time.thread_time()
        for one in self._each:
            text = _replaced(one, text, mask, kept, begun + TEXT_SECONDS)
        self._charge(time.thread_time() - begun, len(text))
        return text

    def _charge(self, seconds: float, characters: int) -> None:
        self._spent += seconds
        self._seen += characters
        if self._spent > FREE_SECONDS and self._seen < SLOWEST * self._spent:
            raise PatternsTooSlow(seconds=round(self._spent, 1), megabytes=round(self._seen / 1e6, 1))


def _replaced(one: Any, text: str, mask: Callable[[str], str], kept: re.Pattern[str], deadline: float) -> str:  # noqa: ANN401 - see _compiled
    spans: list[tuple[int, int]] = []
    masks = [found.span() for found in kept.finditer(text)]
    at = 0
    for found in one.finditer(_encodable(text)):
        start, end = found.span()
        while at < len(masks) and masks[at][1] <= start:
            at += 1
        if end > start and not (at < len(masks) and masks[at][0] <= start and end <= masks[at][1]):
            spans.append((start, end))
        if len(spans) > MAX_MATCHES or time.thread_time() > deadline:
            spans = [(0, len(text))]
            break
    return _without(text, spans, masks, mask) if spans else text


_Spans = Sequence[tuple[int, int]]


def _without(text: str, spans: _Spans, masks: _Spans, mask: Callable[[str], str]) -> str:
    """Masks what lies in the spans, which are in order, but not the masks that are in the text already."""
    parts, done, at = [], 0, 0
    for start, end in spans:
        while at < len(masks) and masks[at][1] <= start:
            at += 1
        begin, n = start, at
        while n < len(masks) and masks[n][0] < end:
            if begin < masks[n][0]:
                parts += [text[done:begin], mask(text[begin : masks[n][0]])]
                done = masks[n][0]
            begin = masks[n][1]
            n += 1
        if begin < end:
            parts += [text[done:begin], mask(text[begin:end])]
            done = end
    return "".join((*parts, text[done:]))


def _encodable(text: str) -> str:
    """Returns the text with half surrogate pairs replaced, each by one character, so that places stay the same."""
    return text if text.isascii() else _HALF.sub("\ufffd", text)
