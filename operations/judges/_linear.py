"""Regular expressions in linear time, for patterns that a specification brings along."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from storage.errors import AtkError, NextCall

MAX_LENGTH = 1_000
"""Characters of one pattern."""

MAX_PROGRAM = 10_000
"""Instructions that one pattern may need."""


@dataclass(kw_only=True, eq=False)
class JudgeEngineMissing(AtkError):
    """A judge needs a package that is not installed."""

    message = (
        "Patterns of a judge are run by the package google-re2, which is not installed. Nothing was judged. Install it "
        "with `pip install 'atk-mcp[patterns]'`, or use a judge without patterns."
    )
    next_calls: ClassVar[tuple[NextCall, ...]] = (
        NextCall("store_assessment", supply={"judger": "once google-re2 is installed, or another method"}),
    )


def require_engine() -> None:
    """Says whether patterns can be run.

    Raises:
        JudgeEngineMissing: They cannot.
    """
    _engine()


def pattern_problem(pattern: str) -> str | None:
    """Returns why a pattern cannot be used, as the end of a sentence, or None.

    Raises:
        JudgeEngineMissing: There is nothing to run it.
    """
    if len(pattern) > MAX_LENGTH:
        return f"the pattern is longer than {MAX_LENGTH} characters"
    try:
        size = int(compiled(pattern).programsize)
    except UnicodeEncodeError:
        return "the pattern holds half a surrogate pair"
    except _engine().error as error:
        said = error.args[0] if error.args else error
        text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        return f"the pattern is none of RE2's, which knows neither look-around nor back-references ({text})"
    if size > MAX_PROGRAM:
        return f"the pattern needs {size} instructions, and {MAX_PROGRAM} are allowed; repeat less in it"
    return None


@lru_cache(maxsize=256)
def compiled(pattern: str, *, ignore_case: bool = False) -> Any:  # noqa: ANN401 - an optional package without types
    """Returns the compiled pattern.

    Raises:
        JudgeEngineMissing: There is nothing to run it.
    """
    engine = _engine()
    options = engine.Options()
    options.log_errors = False  # stderr would hold the pattern
    options.case_sensitive = not ignore_case
    return engine.compile(pattern, options)


def found_in(pattern: str, text: str, *, whole: bool = False, ignore_case: bool = False) -> bool:
    """Returns whether the pattern matches somewhere in the text, or with `whole` all of it."""
    one = compiled(pattern, ignore_case=ignore_case)
    clean = text.encode("utf-8", "replace").decode()
    return (one.fullmatch(clean) if whole else one.search(clean)) is not None


def _engine() -> Any:  # noqa: ANN401 - an optional package without types
    try:
        return importlib.import_module("re2")
    except ImportError:
        raise JudgeEngineMissing from None
