"""Puts stored text on a terminal: in words, and without characters that could act on the terminal."""

from __future__ import annotations

import json
import math
import re
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import TextIOWrapper
from typing import Any, Self, TextIO

from atk_mcp.pipes import fill_closed

_ACTIVE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but tab and line feed, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks and overrides of the writing direction
    "\u200b\u2060-\u2064\U000e0000-\U000e007f\U000e0100-\U000e01ef"  # what a person does not see and a model reads
    "\u2028\u2029\ufeff\ud800-\udfff]"  # line separators, byte order mark, lone surrogates
)

_LINE_LIMIT = 400
"""Characters of one text shown in words; `atk call` prints all of it."""

_ITEMS = 20

_COMMANDS: dict[tuple[str, ...], str] = {
    ("get_status",): "status",
    ("inspect_or_recover_operation",): "recover",
    ("read_record", "record_id"): "show {record_id}",
    ("read_record", "record_id", "field"): "show {record_id} --field {field}",
    ("inspect_trajectory", "record_id"): "trajectory {record_id}",
    ("render_round_report", "round_id"): "report {round_id}",
    ("render_assessment_html", "assessment_id"): "report {assessment_id}",
}
"""The commands that do what a call of a tool with just these arguments does."""

_ASKING: dict[tuple[str, ...], str] = {
    ("initialize_project", "project_path"): "init",  # a project that there is takes its corrections in a call
    ("run_evaluation", "continue_batch_id"): "run {continue_batch_id}",
}
"""As above, of commands that ask for what has to be added."""


class OutputRefused(Exception):
    """Stdout or stderr takes no more, for instance since the disk is full. The text says why."""


class _Output(TextIOWrapper):
    """A stream that tells its own errors from those of the files that a command works on."""

    taken: TextIOWrapper | None = None
    """The stream whose buffer this one has: were it collected, it would close the buffer."""

    def write(self, text: str, /) -> int:
        try:
            return super().write(text)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputRefused(error.strerror) from error

    def flush(self) -> None:
        try:
            super().flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputRefused(error.strerror) from error


def take_streams() -> None:
    """Makes stdout and stderr take every text: what their encoding lacks is escaped, what is closed throws it away."""
    fill_closed()
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if type(stream) is TextIOWrapper:
            own = _Output(
                stream.buffer,
                encoding=stream.encoding,
                errors="backslashreplace",
                line_buffering=stream.line_buffering,
                write_through=stream.write_through,
            )
            own.taken = stream
            setattr(sys, name, own)


def neutralised(text: str) -> str:
    r"""Returns `text` with every character that acts on a terminal, or is not seen there, written as `\uXXXX`.

    Inside JSON the escape says the same character, so the JSON keeps its meaning.
    """
    return _ACTIVE.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[n]:02x}{units[n + 1]:02x}" for n in range(0, len(units), 2))


def indented(text: str) -> str:
    """Returns a stored text for use within a line: its own further lines are set in, so that none looks like ours."""
    return text.replace("\n", "\n      ")


def say(text: str) -> None:
    """Prints a line."""
    _write(sys.stdout, text)


def complain(text: str) -> None:
    """Prints a line to stderr."""
    _write(sys.stderr, text)


def typed(question: str) -> str:
    """Asks at the terminal and returns the line that is typed; bytes of it that are no text are replaced."""
    sys.stderr.write(neutralised(question))
    sys.stderr.flush()
    return sys.stdin.buffer.readline().decode("utf-8", "replace").strip()


def _write(stream: TextIO, text: str) -> None:
    encoding = stream.encoding or "utf-8"
    stream.write(neutralised(text).encode(encoding, "backslashreplace").decode(encoding) + "\n")


def in_words(payload: Mapping[str, Any], project: str | None = None) -> str:
    """Returns an answer for a person: its message, its fields by name, and what leads on as commands.

    `project` is the folder that the command was given, if any, which those commands are given too.
    """
    lines = [str(payload.get("message", ""))] if payload.get("message") else []
    shown = {k: v for k, v in payload.items() if k not in ("message", "next") and v not in (None, [], {}, "")}
    lines += _fields(shown, "")
    steps = payload.get("next") or ()
    if steps:
        lines += ["", "Next:"]
        lines += [f"  {command(step, project)}" for step in steps]
    return "\n".join(lines)


def _fields(values: Mapping[str, Any], indent: str) -> Iterator[str]:
    for name, value in values.items():
        label = f"{indent}{name.replace('_', ' ')}:"
        if isinstance(value, Mapping):
            yield label
            yield from _fields(value, indent + "  ")
        elif isinstance(value, list) and any(isinstance(x, Mapping | list) for x in value):
            yield f"{label} {len(value)}"
            for item in value[:_ITEMS]:
                yield f"{indent}  - {_inline(item)}"
            if len(value) > _ITEMS:
                yield f"{indent}  and {len(value) - _ITEMS} more"
        else:
            yield f"{label} {_inline(value)}"


def _inline(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{k.replace('_', ' ')} {_inline(v)}" for k, v in value.items() if v not in (None, [], {}))
    if isinstance(value, list):
        text = ", ".join(_inline(x) for x in value)
    elif isinstance(value, bool):
        text = "yes" if value else "no"
    else:
        text = "nothing" if value is None else indented(str(value))
    return text if len(text) <= _LINE_LIMIT else text[:_LINE_LIMIT] + "…"


def command(step: Mapping[str, Any], project: str | None) -> str:
    """Returns a call that leads on as a command, and what has to be added to its request.

    Args:
        step: A call as answers have it: `tool`, `arguments`, `supply`.
        project: The folder that the command was given, if any, which this one is given too.
    """
    tool, given = str(step.get("tool")), dict(step.get("arguments") or {})
    wanted = "; ".join(f"{k}: {v}" for k, v in (step.get("supply") or {}).items())
    known, whole = (_ASKING if wanted else _COMMANDS | _ASKING), (tool, *given)
    project = given.pop("project_path", project)
    there = f" --project {shlex.quote(project)}" if project is not None else ""
    if (own := known.get(whole) or known.get((tool, *given))) is not None:
        name, _, more = own.format_map({k: shlex.quote(str(v)) for k, v in given.items()}).partition(" ")
        return f"atk {name}{there} {more}".rstrip()
    request = f" --request {shlex.quote(json.dumps(given, ensure_ascii=False))}" if given else ""
    return f"atk call {tool}{there}{request}" + (f"   (add {wanted})" if wanted else "")


def with_commands(sentence: str, tools: Iterable[str]) -> str:
    """Returns a sentence for agents as one for people: each tool that it names is the command that does the same.

    What stands in backticks or braces stays. Of a tool with its command in brackets, the command stays.

    Args:
        sentence: A text of ATK's own, not of anybody's evidence.
        tools: The names of all tools.
    """
    short = {key[0]: own.split()[0] for key, own in _COMMANDS.items()}
    named = "|".join(map(re.escape, tools))
    sentence = re.sub(rf"\b(?:{named}) \((`atk [^`]+`) in a terminal\)", r"\1", sentence)
    return re.sub(
        rf"`[^`]*`|\{{[^}}]*\}}|\b({named})\b",
        lambda found: f"`atk {short.get(found[1], f'call {found[1]}')}`" if found[1] else found[0],
        sentence,
    )


def _figure(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else f"{value:g}"


class ProgressLine:
    """Shows how far a call is: on one line of a terminal; elsewhere in lines now and then, where they are wanted."""

    def __init__(self, every: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """Takes the least seconds between two lines where stderr is no terminal. Default: nothing is shown there."""
        self._terminal = sys.stderr.isatty()
        self._every = every
        self._clock = clock
        self._last = -math.inf
        self._dirty = False

    def __enter__(self) -> Self:
        """Lets whatever ends the block take the line away."""
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def __call__(self, done: float, total: float | None, note: str) -> None:
        """Shows `done` of `total`, where anything is counted, and what is being done."""
        of = f"/{_figure(total)}" if total is not None else ""
        count = f"{_figure(done)}{of} " if of or done else ""
        line = f"{count}{neutralised(note).splitlines()[0] if note else ''}".rstrip()
        if self._terminal:
            room = shutil.get_terminal_size().columns - 1  # a line that wraps cannot be taken back
            sys.stderr.write(f"\r\x1b[K{line[:room]}")
            sys.stderr.flush()
            self._dirty = True
        elif self._every is not None and (now := self._clock()) - self._last >= self._every:
            self._last = now
            complain(line)
            sys.stderr.flush()

    def clear(self) -> None:
        """Takes the line away."""
        if self._dirty:
            sys.stderr.write("\r\x1b[K")
            self._dirty = False
