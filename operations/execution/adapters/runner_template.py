"""The target-side script of the `python` adapter: imports a callable and calls it with one Case's input.

ATK copies it to `.atk/adapters/runner.py` and pins it by its digest. It runs on the target's own Python, 3.9 or newer,
and uses the standard library only. What the callable returns is the output: text as it is, anything else as JSON. What
it prints goes to stderr. Exit codes: 0 completed, 1 the agent's error, 75 infrastructure. The call is made in a child
of this process, which says through a pipe that the callable came back: without that word exit code 0 is no success.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import inspect
import json
import os
import signal
import sys
import traceback

COMPLETED, AGENT_ERROR, INFRA_ERROR = 0, 1, 75


def main() -> int:
    """Makes the attempt in a child and returns the exit code that says how it went."""
    if not hasattr(os, "fork"):
        return attempt(None)
    heard, said = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(heard)
        return attempt(said)
    os.close(said)
    for passed in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):  # the child gets it too, and how that ends counts
        signal.signal(passed, signal.SIG_IGN)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os.set_blocking(heard, False)
    if os.WEXITSTATUS(status) == COMPLETED and not came_back(heard):
        sys.stderr.write("The process ended before the callable came back (os._exit or exec), so there is no answer.\n")
        return AGENT_ERROR
    return os.WEXITSTATUS(status)


def came_back(heard: int) -> bool:
    """Whether the child said that the callable returned and its answer is written."""
    try:
        return bool(os.read(heard, 1))
    except BlockingIOError:  # whatever it left running holds the pipe
        return False


def attempt(said: int | None) -> int:
    """Calls the callable, writes its answer, and says so. Returns the exit code."""
    parser = argparse.ArgumentParser(description="Call an agent's function with one Case.")
    for name in ("call", "input-file", "attachments-file", "output-dir", "events-file", "case-id", "repeat-index"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--infrastructure", action="append", default=[])
    parser.add_argument("--path", action="append", default=[])
    given = parser.parse_args()
    sys.path[0:1] = [os.path.abspath(path) for path in (*given.path, ".")]
    stdout = os.dup(1)
    os.dup2(2, 1)
    try:
        result = call(target(given.call), given)
    except SystemExit as ended:
        if ended.code:
            raise
        sys.stderr.write(f"{given.call} or its module ended the process with sys.exit, so there is no answer.\n")
        return AGENT_ERROR
    except Exception as trouble:  # noqa: BLE001 - whatever the agent raises is its outcome
        traceback.print_exc()
        names = {name for kind in type(trouble).__mro__ for name in (kind.__name__, qualified(kind))}
        return INFRA_ERROR if names & set(given.infrastructure) else AGENT_ERROR
    finally:
        with contextlib.suppress(ValueError):  # the callable may have closed it
            sys.stdout.flush()
    text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
    with open(stdout, "wb") as file:
        file.write(encoded(text))
    if said is not None:
        os.write(said, b".")
    return COMPLETED


def encoded(text: str) -> bytes:
    """Returns a text as UTF-8: with the bytes that it was decoded from where it has some, else as it can be written."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def target(name: str) -> object:
    """Returns the callable that `module:function` names; the function may be a dotted path."""
    module, _, path = name.partition(":")
    found: object = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found


def call(function: object, given: argparse.Namespace) -> object:
    """Calls the function with the Case's input, and by name with whatever else of the Case it asks for."""
    if not callable(function):
        raise TypeError(f"{given.call} is not callable")
    with open(given.input_file, encoding="utf-8") as file:
        value = json.load(file)
    with open(given.attachments_file, encoding="utf-8") as file:
        attachments = json.load(file)
    offered = {
        "case_id": given.case_id,
        "repeat_index": int(given.repeat_index),
        "attachments": attachments,
        "output_dir": given.output_dir,
        "events_file": given.events_file,
    }
    names = list(inspect.signature(function).parameters)[1:]
    result = function(value, **{name: offered[name] for name in names if name in offered})
    return asyncio.run(_awaited(result)) if inspect.isawaitable(result) else result


async def _awaited(result: object) -> object:
    return await result  # type: ignore[misc]  # inspect.isawaitable is no type guard in every Python this runs on


def qualified(kind: type) -> str:
    """Returns the name of a class with its module's before it."""
    return kind.__module__ + "." + kind.__qualname__


if __name__ == "__main__":
    sys.exit(main())
