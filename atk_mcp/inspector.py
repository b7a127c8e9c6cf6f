"""`atk`: the same operations for a person at a terminal. It needs no MCP."""

from __future__ import annotations

import argparse
import importlib
import json
import shlex
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from atk_mcp import caring, chronicle, looking, results, snapshot
from atk_mcp.describing import STAYS
from atk_mcp.exits import (
    INTERRUPTED,
    OK,
    REFUSED,
    USAGE,
    crashed,
    hush,
    project_folder,
    refused,
)
from atk_mcp.people import commands as people
from atk_mcp.platforms import refusal
from atk_mcp.starting import commands as starting
from atk_mcp.stopping import Asked, stoppable
from atk_mcp.terminal import OutputRefused, ProgressLine, complain, in_words, say, take_streams
from storage.errors import AtkError

if TYPE_CHECKING:
    from operations.definition import Operation

_EPILOG = """\
begin here:
  atk demo                                   a whole Round on a small agent of ATK's own, in a folder of its own
  atk init                                   make this folder a project, by questions, and start its agent once
  atk install                                put the server and the Skills into Codex; --client for others
  atk status                                 what is open here, what is blocked, what to do next
  atk tools                                  every operation in one line
  atk tools store_dataset                    one operation: its fields, its answer and examples
  atk tools --toolsets                       the sets of them that a server can be started with
  atk call get_status                        run an operation; the answer is JSON on stdout
  atk call store_dataset --request '{"source": "cases.csv"}'
  atk run batch-14-m3qa                      wait here for a run, or go on with one that ended early
  atk journal --last 5                       what was done in this project
  atk approve                                what an agent asks a person's word for, and its answer
  atk key list                               the keys of holdout Cases; export and import take them elsewhere
  atk doctor                                 whether this machine and project are fit, and what to do
  atk trace show wire.trace                  what went between a client and its server; `atk trace record` recorded it
  atk completion bash                        a script that completes all this in your shell; also zsh, fish
  atk rounds                                 every Round and its newest result; atk show ID for any object
  atk cases batch-14-m3qa --failed           attempts with their verdicts; atk diff A B, atk trajectory RECORD
  atk report round-6-y6pc --open             a Round as a page; atk gate ROUND for CI; atk watch for a running batch
  atk verify                                 whether every stored byte, count and Decision is as it was recorded
  atk recover                                finish or undo what an interrupted call left

exit status: 0 done; 1 refused (stderr says why and what to do), or `atk verify` found a difference; 2 wrong usage;
3 a fault of ATK (with an incident id); 130 after Ctrl-C and 143 after SIGTERM, also where what was running ended in
order and its answer is printed (a second Ctrl-C leaves at once)
"""

_CALL_EPILOG = """\
for example:
  atk call get_status
  atk call store_dataset --request '{"source": "cases.csv"}'
  atk call run_evaluation --request request.json
  atk call run_evaluation --help             the operation's own fields and examples

A call stays to its end, also that of a run that it starts or waits for: wait_seconds does not matter here. Progress
goes to stderr, at most one line every 10 s where that is no terminal. Ctrl-C stops the call and the run that it
started; the exit status is then 130.
"""

_EVERY = 10.0
"""Least seconds between two lines that say how far a call is, where stderr is no terminal."""


class _Usage(Exception):
    """The command line or the request cannot be used."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status."""
    take_streams()
    if (why := refusal()) is not None:
        complain(f"atk: {why}")
        return USAGE
    given = argparse.Namespace(unsaid=OK)  # the exit status where the answer reached nobody
    status: int | None = None
    try:
        parser = build_parser()
        try:
            _, stray = parser.parse_known_args(argv, given)
        except SystemExit:
            sys.stdout.flush()  # a help that is not taken is told here; at Python's end it would show a stack
            raise
        if stray:  # the command's own usage helps more than that of `atk`
            getattr(given, "parser", parser).error(f"unrecognized arguments: {' '.join(stray)}")
        status = int(given.command(given))
        sys.stdout.flush()
    except _Usage as error:
        complain(f"atk: {error}")
        return USAGE
    except KeyboardInterrupt:
        complain(_left(getattr(given, "project", None)))
        return INTERRUPTED
    except BrokenPipeError:  # whoever read our output has seen enough
        hush()
        return given.unsaid if status is None else status  # a gate that could not say never passes
    except OutputRefused as error:
        hush()
        with suppress(OutputRefused):  # stderr may be on the same disk
            complain(f"atk: stdout takes no more: {error}.")
        return given.unsaid or REFUSED
    except Exception as error:  # noqa: BLE001 - each becomes a refusal, or a crash that is put on record
        return max(_failed(error, given), int(given.unsaid))  # what refuses a gate is no verdict
    return status


def _failed(error: Exception, given: argparse.Namespace) -> int:
    """Tells why a command did not end well: what it refused, what the system refused, or a fault of ATK."""
    as_json, project = getattr(given, "json", False), getattr(given, "project", None)
    if isinstance(error, OSError):
        from storage.project import StorageFailed  # noqa: PLC0415 - --help needs no store

        error = StorageFailed.of(error)
    if isinstance(error, AtkError):
        return refused(error, as_json=as_json, project=project)
    name = given.parser.prog if hasattr(given, "parser") else "atk"
    return crashed(error, name, {"project_path": project}, as_json=as_json)


def _left(project: str | None) -> str:
    there = f" --project {shlex.quote(project)}" if project is not None else ""
    return (
        f"atk: left at once. What was recorded stays. `atk recover{there}` ends what was left open and puts the "
        f"worktree back; `atk status{there}` says what is open."
    )


def build_parser() -> argparse.ArgumentParser:
    """Returns the parser of `atk`."""
    parser = argparse.ArgumentParser(
        prog="atk",
        description="Look into an ATK project and run its operations from a terminal.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_const", const=_version, dest="command", help="print the version")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    parser.set_defaults(command=_no_command(parser))

    demo = commands.add_parser("demo", help="a whole Round on a small agent, to see how it goes")
    demo.add_argument("--seed", type=int, default=7, metavar="N", help="the same seed tells the same story (default 7)")
    demo.add_argument("--path", metavar="DIR", help="an empty or new folder for it (default: a temporary one)")
    demo.add_argument("--no-op-edit", action="store_true", help="change nothing, and see that no effect is found")
    demo.set_defaults(command=_demo)

    starting.add(commands, _command)

    status = _command(commands, "status", _status, "what is open, what is blocked, what to do next")
    status.add_argument("--json", action="store_true", help="print the answer as JSON")

    tools = commands.add_parser("tools", help="list the operations, or describe one with its fields and examples")
    tools.add_argument("name", nargs="?", metavar="NAME", help="an operation, for instance store_dataset")
    tools.add_argument("--toolsets", action="store_true", help="list the sets that `atk-mcp --toolsets` takes")
    tools.add_argument("--json", action="store_true", help="one line of JSON, with schemas, annotations and sizes")
    tools.set_defaults(command=_tools)

    call = _command(commands, "call", _call, "run an operation to its end and print its answer as JSON", own_help=True)
    call.epilog = _CALL_EPILOG
    call.formatter_class = argparse.RawDescriptionHelpFormatter
    call.add_argument("operation", nargs="?", metavar="OPERATION", help="its name, as in `atk tools`")
    call.add_argument("-h", "--help", action="store_true", help="show this, or with OPERATION its fields and examples")
    call.add_argument(
        "--request",
        metavar="FILE",
        help="a JSON object of arguments: a file, - for stdin, or the JSON itself if it begins with { (default: {})",
    )
    call.add_argument(
        "--json", action="store_true", help="one line of JSON; stderr holds nothing but a refusal, as JSON"
    )
    call.set_defaults(usage=call)

    run = _command(commands, "run", _hold, "wait here for a batch's run, or go on with one that ended early")
    run.add_argument("batch_id", metavar="BATCH", help="its id, as run_evaluation answered it")
    run.add_argument("--rerun-unknown", metavar="REASON", help="attempts of unknown end may run again, and why")
    run.set_defaults(json=False)

    journal = _command(commands, "journal", _journal, "what was done in this project, the newest last")
    journal.add_argument("--last", type=int, default=20, metavar="N", help="only the last N records (default 20)")
    journal.add_argument("--json", action="store_true", help="whole records, one line of JSON each")

    caring.add(commands, _command)
    people.add(commands, _command)
    looking.add(commands, parser)

    recover = _command(commands, "recover", _recover, "finish or undo what an interrupted call left")
    recover.add_argument("--json", action="store_true", help="print the answer as JSON")
    _describe_all(parser)
    return parser


def _describe_all(parser: argparse.ArgumentParser) -> None:
    """Lets the help of each command begin with what the list of commands says of it."""
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to what a parser takes
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - as above
            said = {choice.dest: choice.help or "" for choice in action._choices_actions}  # noqa: SLF001 - as above
            for name, command in action.choices.items():
                command.description = command.description or f"{said[name][:1].upper()}{said[name][1:]}."
                _describe_all(command)


def _command(
    commands: Any,  # noqa: ANN401 - argparse keeps the type of its subparsers to itself
    name: str,
    run: Callable[[argparse.Namespace], int],
    summary: str,
    *,
    own_help: bool = False,
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=summary, add_help=not own_help)
    parser.add_argument("--project", metavar="DIR", help="the project's folder (default: this one)")
    parser.set_defaults(command=run, parser=parser)
    return parser


def _no_command(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    def show_help(_: argparse.Namespace) -> int:
        parser.print_help(sys.stderr)
        return USAGE

    return show_help


def _version(_: argparse.Namespace) -> int:
    import atk_mcp  # noqa: PLC0415 - metadata is read for --version only

    say(f"atk {atk_mcp.__version__}")
    return OK


def _demo(given: argparse.Namespace) -> int:
    run = importlib.import_module("atk_mcp.demo.run").run
    return int(run(seed=given.seed, path=given.path, no_op_edit=given.no_op_edit))


def _status(given: argparse.Namespace) -> int:
    return _invoke("get_status", {}, given, _shown(given))


def _recover(given: argparse.Namespace) -> int:
    return _invoke("inspect_or_recover_operation", {}, given, _shown(given))


def _shown(given: argparse.Namespace) -> Callable[[dict[str, Any]], str]:
    """Returns what makes an answer a text: JSON where that is asked for, else words."""
    return _as_json if given.json else partial(in_words, project=given.project)


def _tools(given: argparse.Namespace) -> int:
    from atk_mcp import listing  # noqa: PLC0415 - nothing else needs it

    if given.toolsets and given.name is not None:
        raise _Usage("name an operation or ask for --toolsets, not both.")
    if given.toolsets:
        listing.say_toolsets(as_json=given.json)
    elif given.name is None:
        listing.say_all(as_json=given.json)
    else:
        return _describe(given.name, as_json=given.json)
    return OK


def _describe(name: str, *, as_json: bool = False) -> int:
    from atk_mcp import listing  # noqa: PLC0415 - as above

    operation = _named(name)  # the list has no examples
    tools = {tool["name"]: tool for tool in snapshot.load()}
    listing.say_one(tools[name], operation, as_json=as_json)
    return OK


def _named(name: str) -> Operation[Any, Any]:
    from operations.registry import all_operations  # noqa: PLC0415 - --help needs neither models nor store

    operations = all_operations()
    if (found := operations.get(name)) is None:
        near = snapshot.near(name, operations)
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        raise _Usage(f"there is no operation {name!r}.{hint} `atk tools` lists them.")
    return found


def _call(given: argparse.Namespace) -> int:
    if given.help and given.operation is not None:
        return _describe(given.operation)
    if given.help:
        say(given.usage.format_help().rstrip())
        return OK
    if given.operation is None:
        raise _Usage("name an operation to call; `atk tools` lists them, `atk call --help` has examples.")
    arguments = _request(given.request)
    starts = not (arguments.get("dry_run") or arguments.get("preview"))
    if STAYS in _named(given.operation).request.model_fields and starts and not given.json:
        words = f"stays until what it starts has ended, whatever {STAYS} says; Ctrl-C ends that."
        complain(f"atk: {given.operation} {words}")
    return _invoke(given.operation, arguments, given, results.compact if given.json else _as_json)


def _hold(given: argparse.Namespace) -> int:
    from atk_mcp.holding import hold  # noqa: PLC0415 - --help needs no store

    status = OK

    def call(name: str, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
        nonlocal status
        answers: list[dict[str, Any]] = []
        status = _invoke(name, dict(arguments), given, answers.append)
        return answers[0] if answers else None

    complete = hold(call, project_folder(given), given.batch_id, given.rerun_unknown)
    return status if complete or status else REFUSED


def _request(source: str | None) -> dict[str, Any]:
    if source is None:
        return {}
    inline = source.lstrip().startswith("{")
    called = "given inline" if inline else source
    try:
        if inline:
            text = source
        elif source == "-":
            text = sys.stdin.read()
        else:
            with open(source, encoding="utf-8") as file:
                text = file.read()
        arguments = json.loads(text.removeprefix("\ufeff"))  # some editors begin a file with this mark
    except OSError as error:
        raise _Usage(f"cannot read the request {called}: {error.strerror}.") from None
    except ValueError as error:
        raise _Usage(f"the request {called} is not UTF-8 JSON: {error}.") from None
    except RecursionError:
        raise _Usage(f"the request {called} is nested too deep.") from None
    if not isinstance(arguments, dict):
        raise _Usage(f"the request {called} must be a JSON object of arguments, such as {{}}.")
    return arguments


def _journal(given: argparse.Namespace) -> int:
    from storage.project import Project  # noqa: PLC0415 - --help needs no store

    if given.last < 1:
        raise _Usage("--last takes a number from 1 up.")
    bodies = Project.open(project_folder(given)).journal_records()
    told = (results.compact(results.safe(body)) for body in bodies) if given.json else chronicle.lines(bodies)
    for line in deque(told, min(given.last, sys.maxsize)):
        say(line)
    return OK


def _invoke(
    name: str, arguments: dict[str, Any], given: argparse.Namespace, show: Callable[[dict[str, Any]], str | None]
) -> int:
    """Runs an operation to its end, Ctrl-C being a request to stop, and prints what `show` makes of it."""
    from atk_mcp.approving import at_terminal  # noqa: PLC0415 - --help needs neither models nor store
    from operations.invocation import invoke  # noqa: PLC0415 - as above

    operation = _named(name)
    if given.project is not None:
        arguments = {**arguments, "project_path": given.project}
    ask = None if given.json else at_terminal()
    asked = Asked()
    try:
        with ProgressLine(None if given.json else _EVERY) as progress, stoppable(asked, quiet=given.json):
            response = invoke(operation, arguments, progress=progress, cancelled=asked, stays=True, ask=ask)
            text = show(results.payload(response))
    except AtkError as error:
        declined = refused(error, as_json=given.json, project=given.project)
        return asked.status or declined
    except Exception as error:  # noqa: BLE001 - a crash is put on record, and the person gets its id
        return crashed(error, name, arguments, as_json=given.json)
    if text is not None:
        say(text)
    return asked.status or OK


def _as_json(payload: dict[str, Any]) -> str:
    return json.dumps(payload, ensure_ascii=False, indent=2)


if __name__ == "__main__":
    sys.exit(main())
