"""Adds the commands of this package to the parser of `atk`; each runs one function of a module beside this one."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NoReturn

from atk_mcp.exits import project_folder

Add = Callable[[Any, str, Callable[[argparse.Namespace], int], str], argparse.ArgumentParser]
"""Makes a command that has `--project`."""

FORMATS = ("html", "markdown", "junit", "json")
_GATE = """\
exit status: 0 the newest comparison passed; 1 it did not (no effect, or a regression); 2 the evidence decides nothing
(insufficient, invalid, nothing was compared, or what passed was taken back and is not kept); 3 an error, also wrong
usage. An override by a person changes none of it. The comparison is that of the final validation where there is one,
else the newest of a candidate.

for example, in CI:
  atk verify && atk gate round-6-y6pc --junit junit.xml
"""


def add(commands: Any, command: Add) -> None:  # noqa: ANN401 - argparse keeps the type of its subparsers to itself
    """Adds the commands."""
    _tables(commands, command)
    _pages(commands, command)

    watch = command(commands, "watch", _run("watching", "watch"), "follow a running batch until it has ended")
    watch.add_argument("batch_id", nargs="?", metavar="BATCH", help="its id (default: the one that runs)")
    watch.add_argument("--json", action="store_true", help="one line of JSON whenever something changed")

    gc = command(
        commands,
        "gc",
        _run("freeing", "gc"),
        "free what can be made again or is nobody's: reports and leftovers, never evidence",
    )
    gc.add_argument("--dry-run", action="store_true", help="only say what would be freed")
    gc.add_argument("--json", action="store_true", help="print it as JSON")

    export = command(
        commands, "export", _run("carrying", "export"), "write the whole store into one file, with its digests"
    )
    export.add_argument("path", metavar="FILE", help="a file that does not exist, such as project.atk.tar.zst")
    export.add_argument("--json", action="store_true", help="print what was written as JSON")
    bring = command(
        commands, "import-project", _run("carrying", "bring"), "unpack what `atk export` wrote, and verify all of it"
    )
    bring.add_argument("path", metavar="FILE", help="what `atk export` wrote")
    bring.add_argument("--json", action="store_true", help="print what was found as JSON")


def _tables(commands: Any, command: Add) -> None:  # noqa: ANN401 - as above
    rounds = command(commands, "rounds", _run("rounds", "rounds"), "every Round: its state, candidates and result")
    show = command(commands, "show", _run("rounds", "show"), "one stored object by its id, with what it holds")
    show.add_argument("record_id", metavar="ID", help="any id that ATK gave")
    show.add_argument("--field", metavar="NAME", help="a field to show whole, such as cases.0.input")
    diff = command(commands, "diff", _run("cases", "diff"), "two runs by Case, or two attempts line by line")
    diff.add_argument("left", metavar="A", help="a batch, an Assessment or a Record")
    diff.add_argument("right", metavar="B", help="another one of the same kind")
    cases = command(commands, "cases", _run("cases", "cases"), "the attempts of a batch with their verdicts")
    cases.add_argument("batch_id", metavar="BATCH", help="a run or an import")
    cases.add_argument("--failed", action="store_true", help="only those that failed or have no known outcome")
    cases.add_argument("--case", metavar="CASE", help="only this Case")
    cases.add_argument("--first", type=int, default=200, metavar="N", help="only the first N of them (default 200)")
    trajectory = command(
        commands, "trajectory", _run("trajectories", "trajectory"), "what an agent did in one attempt, step by step"
    )
    trajectory.add_argument("record_id", metavar="RECORD", help="a Record, such as batch-14-m3qa.7")
    trajectory.add_argument("--whole", action="store_true", help="texts as they are, and not their beginnings")
    for parser in (rounds, show, diff, cases, trajectory):
        parser.add_argument("--json", action="store_true", help="print it as JSON")


def _pages(commands: Any, command: Add) -> None:  # noqa: ANN401 - as above
    report = command(commands, "report", _run("verdicts", "report"), "a Round or an Assessment as a page or a file")
    report.add_argument("object_id", metavar="ID", help="a Round or an Assessment")
    report.add_argument("--format", choices=FORMATS, default="html", help="default html; an Assessment has no other")
    report.add_argument("--open", action="store_true", help="open it in the browser")
    report.add_argument("--json", action="store_true", help="print where it lies as JSON")
    gate = command(commands, "gate", _run("verdicts", "gate"), "a Round's verdict, by exit status, for CI")
    gate.set_defaults(unsaid=3)
    gate.formatter_class = argparse.RawDescriptionHelpFormatter
    gate.epilog = _GATE
    gate.add_argument("round_id", metavar="ROUND", help="the Round")
    gate.add_argument("--junit", metavar="FILE", help="write JUnit XML as well")
    gate.add_argument("--markdown", metavar="FILE", help="write Markdown as well, for a pull request")
    gate.add_argument("--json", action="store_true", help="print the verdict as JSON")
    gate.error = _usage_error(gate)  # type: ignore[assignment,method-assign] # 2 means something else to who asks a gate


def _usage_error(parser: argparse.ArgumentParser) -> Callable[[str], NoReturn]:
    def fail(message: str) -> NoReturn:
        parser.exit(3, f"{parser.format_usage()}{parser.prog}: error: {message}\n")

    return fail


def _run(module: str, function: str) -> Callable[[argparse.Namespace], int]:
    """Returns a command that runs a function of this package, which gets the arguments and the project's folder."""

    def run(given: argparse.Namespace) -> int:
        import importlib  # noqa: PLC0415 - --help needs neither tables nor store

        found = importlib.import_module(f"atk_mcp.people.{module}")
        return int(getattr(found, function)(given, project_folder(given)))

    return run
