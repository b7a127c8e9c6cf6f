"""Reads the fenced blocks of a Markdown page and runs them in order, as a reader would type them.

What follows a block's language says what it is:

- `sh` alone is run. `status=N`: its last command ends with that exit status.
- `file=NAME` is the content of a file, which is written.
- `output` is what the block before it prints: its lines in their order, each whole. `…` stands for lines left out, and
  at the end of a line for the rest of it.
- `request=OPERATION` is a request that the operation takes; of a block of JSON only.
- `not-run: REASON` cannot be run here, and says why.

Ids on a page are examples: `batch-9-wnde` stands for the object of that kind and number, however its id ends.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from operations.registry import all_operations

FENCE = re.compile(
    r"^(?P<indent> *)(?P<ticks>```+)(?P<info>[^`\n]*)\n(?P<text>.*?)^ *(?P=ticks) *$", re.MULTILINE | re.DOTALL
)
ID = re.compile(r"\b([a-z]+-\d+)-([a-z0-9]{4})\b")
HEX = re.compile(r"\b(?:[0-9a-f]{7}|[0-9a-f]{12}|[0-9a-f]{40}|[0-9a-f]{64})\b")
LEFT_OUT = "…"
NOT_RUN = "not-run:"


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, what follows it, its text, and the line it begins in."""

    language: str
    rest: str
    text: str
    line: int

    @property
    def why_not(self) -> str | None:
        """Why the block is not run; None where it is."""
        return self.rest.partition(NOT_RUN)[2].strip() if NOT_RUN in self.rest else None

    def option(self, name: str) -> str | None:
        """Returns what `name=` says."""
        found = re.search(rf"(?:^|\s){name}=(\S+)", self.rest)
        return found[1] if found else None

    @property
    def is_output(self) -> bool:
        """Whether it shows what the block before it prints."""
        return self.rest == "output"


def blocks_of(text: str) -> list[Block]:
    """Returns the fenced blocks of a page."""
    found = []
    for match in FENCE.finditer(text):
        language, _, rest = match["info"].strip().partition(" ")
        indent = len(match["indent"])
        lines = [line[indent:] for line in match["text"].splitlines(keepends=True)]
        found.append(Block(language, rest.strip(), "".join(lines), text.count("\n", 0, match.start()) + 1))
    return found


def commands_of(text: str) -> Iterator[str]:
    """Yields each command of a shell block with its newline; one that goes on over several lines is one."""
    waiting, ends = "", ""
    for line in text.splitlines(keepends=True):
        waiting += line
        if ends:
            if line.rstrip("\n") == ends:
                yield waiting
                waiting, ends = "", ""
            continue
        if heredoc := re.search(r"<<-?\s*['\"]?(\w+)", line):
            ends = heredoc[1]
            continue
        if not line.endswith("\\\n") and _is_whole(waiting):
            yield waiting
            waiting = ""
    if waiting.strip():
        raise AssertionError(f"a command does not end: {waiting}")


def _is_shown(part: list[str], found: list[str]) -> bool:
    """Whether lines of a page show these lines."""
    pairs = zip(part, found, strict=False)
    return len(part) == len(found) and all(
        line == other or (line.endswith(LEFT_OUT) and other.startswith(line.removesuffix(LEFT_OUT)))
        for line, other in pairs
    )


def _is_whole(text: str) -> bool:
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return False
    return True


@dataclass
class Reader:
    """Somebody who types what a page says, from `home` on."""

    home: Path
    exact: bool = True
    """Whether ids have to be those of the page; else one may stand for the newest object of its kind."""
    here: Path = field(init=False)
    ids: list[str] = field(default_factory=list)
    """Every id that was printed, in order."""
    printed: str = ""
    """What the last block printed; stderr only where it was refused."""

    def __post_init__(self) -> None:
        self.here = self.home

    def read(self, blocks: list[Block]) -> None:
        """Does what the blocks say, in their order."""
        for block in blocks:
            if block.why_not is not None:
                continue
            if name := block.option("file"):
                (self.here / name).parent.mkdir(parents=True, exist_ok=True)
                (self.here / name).write_text(self.real(block.text), encoding="utf-8")
            elif block.is_output:
                self.compare(block)
            elif operation := block.option("request"):
                all_operations()[operation].request.model_validate_json(block.text)
            elif block.language == "sh":
                self.run(block)

    def run(self, block: Block) -> None:
        """Runs a shell block, command by command."""
        wanted = int(block.option("status") or 0)
        commands = list(commands_of(block.text))
        self.printed = ""
        for n, command in enumerate(commands):
            status, out, err = self.one(self.real(command))
            self.ids += [found[0] for found in ID.finditer(out + err)]
            self.printed += out + (err if status else "")
            expected = wanted if n == len(commands) - 1 else 0
            assert status == expected, f"line {block.line}: {command}ended with {status}\n{out}{err}"

    def one(self, command: str) -> tuple[int, str, str]:
        """Runs one command. Returns its exit status and what it printed to stdout and to stderr."""
        words = shlex.shlex(command, posix=True, punctuation_chars=True)
        words.whitespace_split = True
        split = list(words)
        plain = "$" not in command and "`" not in command and not any(set(word) <= set("();<>|&") for word in split)
        if split[:1] == ["atk"] and plain:
            return self.atk(split[1:])
        after = self.home / ".after"
        script = f'{command}\nstatus=$?; pwd > "{after}"; exit $status\n'
        done = subprocess.run(["sh", "-c", script], cwd=self.here, capture_output=True, text=True, check=False)
        self.here = Path(after.read_text(encoding="utf-8").strip())
        after.unlink()
        return done.returncode, done.stdout, done.stderr

    def atk(self, arguments: list[str]) -> tuple[int, str, str]:
        """Runs `atk` in this process, which spares its imports."""
        from atk_mcp import inspector

        out, err = io.StringIO(), io.StringIO()
        before = os.getcwd()
        os.chdir(self.here)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                try:
                    status = inspector.main(arguments)
                except SystemExit as ended:
                    status = int(ended.code or 0)
        finally:
            os.chdir(before)
        return status, out.getvalue(), err.getvalue()

    def real(self, text: str) -> str:
        """Returns a text with the page's ids as they are here."""
        return ID.sub(lambda found: self.real_id(found[0], found[1]), text)

    def real_id(self, shown: str, kind_and_number: str) -> str:
        """Returns the id that an id of the page stands for."""
        kind = kind_and_number.rpartition("-")[0] + "-"
        known = [one for one in self.ids if one.startswith(kind_and_number + "-")]
        if not known and not self.exact:
            known = [one for one in self.ids if re.fullmatch(rf"{kind}\d+-[a-z0-9]{{4}}", one)]
        assert known, f"{shown} is on the page, but nothing of that kind and number was printed before: {self.ids}"
        return known[-1]

    def compare(self, block: Block) -> None:
        """Holds an output block to what was printed."""
        found = [self.shown(line) for line in self.printed.splitlines()]
        at = 0
        for part in self.parts(block.text):
            places = (n for n in range(at, len(found)) if _is_shown(part, found[n : n + len(part)]))
            place = next(places, None)
            wanted = "\n".join(part)
            assert place is not None, (
                f"line {block.line}: the page shows\n{wanted}\nbut this was printed:\n{self.printed}"
            )
            at = place + len(part)

    def parts(self, text: str) -> Iterator[list[str]]:
        """Yields the lines between those that stand for lines left out."""
        part: list[str] = []
        for line in [*text.splitlines(), LEFT_OUT]:
            if line.strip() != LEFT_OUT:
                part.append(self.shown(line))
            elif part:
                yield part
                part = []

    def shown(self, line: str) -> str:
        """Returns a line without what differs from run to run: ends of ids, commits, digests, the folder."""
        line = ID.sub(r"\1-····", line.replace(str(self.home), "/home/you"))
        return HEX.sub("·······", line).rstrip()


def environment(home: Path) -> dict[str, str]:
    """Returns the variables of a person who has Git, `atk` and nothing of the machine's own settings."""
    return {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "120",
        "GIT_AUTHOR_NAME": "You",
        "GIT_AUTHOR_EMAIL": "you@example.org",
        "GIT_COMMITTER_NAME": "You",
        "GIT_COMMITTER_EMAIL": "you@example.org",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
    }
