"""The disk states that a power cut could leave, from one recorded run (a small ALICE).

Two models of what is on the disk when the power goes:

`strict`: the minimum that POSIX promises. A change is safe only once it was flushed: data by an fsync of the file,
names (create, rename, unlink, mkdir) by an fsync of the folder. Anything else may be lost, or be the only thing kept.

`ordered`: journalling file systems (ext4 data=ordered, xfs). Names reach the disk in order, and an fsync of a file
also keeps the names up to that moment; data without an fsync may be lost.

A state is a moment of the run and a choice of what was not flushed by then; one write may be half on the disk.
"""

from __future__ import annotations

import collections
import os
import random
import shutil
import stat
import urllib.parse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

CHANGING = frozenset({"names", "write", "cut"})

Tree = dict[str, tuple[str, bytes, int]]
"""Path → kind (`f`, `d` or `l`), bytes or a link's target, mode."""


class Op(NamedTuple):
    """One step towards the disk.

    `names`: `add` and `remove` are entries of folders. `write`: `data` at `offset` of `inode`. `cut`: `inode` becomes
    `offset` bytes long. `flush`: of `inode`. `flush_all`: of everything.
    """

    kind: str
    text: str
    inode: int = 0
    offset: int = 0
    data: bytes = b""
    add: tuple[tuple[int, str, int], ...] = ()
    remove: tuple[tuple[int, str], ...] = ()


class Choice(NamedTuple):
    """What of the first `moment` steps is on the disk, and which write only in part."""

    moment: int
    why: str
    keep: tuple[int, ...]
    torn: int | None = None
    part: float | None = None
    """How much of the torn write is on the disk, from its beginning; None: zeros in its place."""


def snapshot(root: str) -> Tree:
    """Returns everything under `root`, sockets and the like left out."""
    found: Tree = {}
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = os.path.join(folder, name)
            at = os.path.relpath(path, root)
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                found[at] = ("l", os.fsencode(os.readlink(path)), 0)
            elif stat.S_ISDIR(mode):
                found[at] = ("d", b"", mode & 0o7777)
            elif stat.S_ISREG(mode):
                with open(path, "rb") as file:
                    found[at] = ("f", file.read(), mode & 0o7777)
    return found


def materialise(root: str, tree: Tree) -> None:
    """Makes `root` hold exactly `tree`."""
    shutil.rmtree(root, ignore_errors=True)
    os.makedirs(root)
    for at in sorted(tree):
        kind, data, mode = tree[at]
        path = os.path.join(root, at)
        if kind == "d":
            os.makedirs(path, exist_ok=True)
            os.chmod(path, mode or 0o755)
        elif kind == "l":
            os.symlink(os.fsdecode(data), path)
        else:
            with open(path, "wb") as file:
                file.write(data)
            os.chmod(path, mode or 0o644)


@dataclass
class Recording:
    """A run as steps towards the disk, read from what crashtrace recorded over `root`, which held `before`."""

    root: str
    ops: list[Op] = field(default_factory=list)
    printed: list[bytes] = field(default_factory=lambda: [b""])
    """What had been printed by the time of each step."""
    unmodelled: list[str] = field(default_factory=list)
    _kinds: dict[int, str] = field(default_factory=lambda: {0: "d"})
    _data: dict[int, bytes] = field(default_factory=dict)
    _links: dict[int, bytes] = field(default_factory=dict)
    _modes: dict[int, int] = field(default_factory=dict)
    _entries: dict[tuple[int, str], int] = field(default_factory=dict)
    _start: dict[tuple[int, str], int] = field(default_factory=dict)

    @classmethod
    def read(cls, root: str, before: Tree, log: str, data: str) -> Recording:
        """Reads a recorded run."""
        made = cls(root)
        made._entries[0, os.path.basename(root)] = made._new("d")
        for at in sorted(before):
            kind, content, mode = before[at]
            inode = made._new(kind)
            made._modes[inode] = mode
            (made._links if kind == "l" else made._data)[inode] = content
            folder, name = made._where(os.path.join(root, at))
            assert folder is not None
            made._entries[folder, name] = inode
        made._start = dict(made._entries)
        with open(data, "rb") as file:
            blob = file.read()
        with open(log, encoding="utf-8", errors="replace") as file:
            for line in file:
                parts = line.rstrip("\n").split("\t")
                if len(parts) == 11:
                    made._feed(parts, blob)
        return made

    # ---- reading --------------------------------------------------------------------------------------------

    def _new(self, kind: str) -> int:
        inode = len(self._kinds)
        self._kinds[inode] = kind
        return inode

    def _lookup(self, path: str) -> int | None:
        if path == os.path.dirname(self.root):
            return 0
        if not f"{path}/".startswith(f"{self.root}/"):
            return None
        inode = self._entries.get((0, os.path.basename(self.root)))
        at = os.path.relpath(path, self.root)
        for part in [] if at == "." else at.split("/"):
            if inode is None:
                return None
            inode = self._entries.get((inode, part))
        return inode

    def _where(self, path: str) -> tuple[int | None, str]:
        return self._lookup(os.path.dirname(path)), os.path.basename(path)

    def _emit(self, op: Op) -> None:
        self.ops.append(op)
        self.printed.append(self.printed[-1])

    def _names(self, text: str, add: Sequence[tuple[int, str, int]], remove: Sequence[tuple[int, str]]) -> None:
        for entry in remove:
            self._entries.pop(entry, None)
        for folder, name, inode in add:
            self._entries[folder, name] = inode
        self._emit(Op("names", text, add=tuple(add), remove=tuple(remove)))

    def _feed(self, parts: list[str], blob: bytes) -> None:
        call, path, other = parts[2], urllib.parse.unquote(parts[3]), urllib.parse.unquote(parts[4])
        offset, length, flags, at, result = (int(x) for x in parts[6:11])
        if call == "out1":
            self.printed[-1] += blob[at : at + length]
        elif call == "mmap-shared-write":
            self.unmodelled.append(f"{self._short(path)} is written through mmap")
        elif call != "out2" and result >= 0:
            text = f"{call} {self._short(path)}"
            if call in ("open", "openat", "creat"):
                self._opened(path, flags, text)
            elif call in ("write", "pwrite64", "writev", "pwritev", "pwritev2", "content"):
                size = length if call == "content" else result
                self._written(path.removesuffix(" (deleted)"), max(offset, 0), blob[at : at + size], text)
            elif call in ("ftruncate", "truncate") and (inode := self._lookup(path)) is not None:
                self._emit(Op("cut", f"{text} to {length}", inode, length))
            elif call in ("fsync", "fdatasync") and (inode := self._lookup(path)) is not None:
                self._emit(Op("flush", text, inode))
            elif call in ("sync", "syncfs"):
                self._emit(Op("flush_all", call))
            else:
                self._moved(call, path, other, flags, text)

    def _opened(self, path: str, flags: int, text: str) -> None:
        inode = self._lookup(path)
        if inode is not None:
            if flags & os.O_TRUNC:
                self._emit(Op("cut", f"truncate {text}", inode, 0))
            return
        folder, name = self._where(path)
        if folder is None:
            self.unmodelled.append(text)
            return
        inode = self._new("f")
        self._data[inode] = b""
        self._names(text, [(folder, name, inode)], [])

    def _written(self, path: str, offset: int, data: bytes, text: str) -> None:
        inode = self._lookup(path)
        if inode is not None and self._kinds[inode] == "f":
            self._emit(Op("write", f"{text} [{len(data)} at {offset}]", inode, offset, data))

    def _moved(self, call: str, path: str, other: str, flags: int, text: str) -> None:
        folder, name = self._where(path)
        if call in ("unlink", "unlinkat", "rmdir"):
            assert folder is not None
            self._names(text, [], [(folder, name)])
        elif call in ("mkdir", "mkdirat") and folder is not None:
            self._names(text, [(folder, name, self._new("d"))], [])
        elif call in ("symlink", "symlinkat") and folder is not None:
            inode = self._new("l")
            self._links[inode] = os.fsencode(other)
            self._names(text, [(folder, name, inode)], [])
        elif call in ("rename", "renameat", "renameat2", "link", "linkat"):
            inode, (to, new) = self._lookup(path), self._where(other)
            text = f"{text} -> {self._short(other)}"
            if inode is None or folder is None or to is None:
                self.unmodelled.append(text)
            elif call in ("link", "linkat"):
                self._names(text, [(to, new, inode)], [])
            elif call == "renameat2" and flags & 2 and (second := self._lookup(other)) is not None:
                self._names(text, [(folder, name, second), (to, new, inode)], [])
            else:
                self._names(text, [(to, new, inode)], [(folder, name)])

    def _short(self, path: str) -> str:
        return os.path.relpath(path, self.root) if f"{path}/".startswith(f"{self.root}/") else path

    # ---- states ---------------------------------------------------------------------------------------------

    def choices(self, model: str) -> Iterator[Choice]:
        """Yields the choices of `model`, moment by moment; two of them may be the same state."""
        for moment in range(len(self.ops) + 1):
            must = self.flushed(moment, model)
            done = tuple(j for j in range(moment) if self.ops[j].kind in CHANGING)
            free = [j for j in done if j not in must]
            after = f"after {self.ops[moment - 1].text if moment else 'the start'}"
            yield Choice(moment, f"{after}: all of it", done)
            yield Choice(moment, f"{after}: nothing unflushed", tuple(j for j in done if j in must))
            for j in free:
                what = self.ops[j].text
                if model == "strict":
                    yield Choice(moment, f"{after}: lost only {what}", tuple(x for x in done if x != j))
                    yield Choice(moment, f"{after}: kept only {what}", tuple(x for x in done if x in must or x == j))
                elif self.ops[j].kind == "names":
                    names = {x for x in free if x <= j and self.ops[x].kind == "names"}
                    data = {x for x in free if self.ops[x].kind != "names"}
                    kept = tuple(x for x in done if x in must or x in names)
                    yield Choice(moment, f"{after}: names up to {what}", kept)
                    kept = tuple(x for x in done if x in must or x in names or x in data)
                    yield Choice(moment, f"{after}: names up to {what}, and all data", kept)
                if self.ops[j].kind == "write":
                    yield Choice(moment, f"{after}: half of {what}", done, j, 0.5)
                    yield Choice(moment, f"{after}: zeros for {what}", done, j)

    def flushed(self, moment: int, model: str) -> set[int]:
        """The steps before `moment` that have to be on the disk by then."""
        found: set[int] = set()
        for at in range(moment):
            op = self.ops[at]
            if op.kind == "flush_all":
                found |= set(range(at))
            elif op.kind == "flush":
                for j in range(at):
                    earlier = self.ops[j]
                    folders = {folder for folder, *_ in (*earlier.add, *earlier.remove)}
                    if (
                        (earlier.kind in ("write", "cut") and earlier.inode == op.inode)
                        or (earlier.kind == "names" and model == "ordered")
                        or op.inode in folders
                    ):
                        found.add(j)
        return found

    def build(self, choice: Choice) -> Tree:
        """Returns what the disk holds."""
        entries, data = dict(self._start), dict(self._data)
        for j in choice.keep:
            op = self.ops[j]
            if op.kind == "names":
                for entry in op.remove:
                    entries.pop(entry, None)
                for folder, name, inode in op.add:
                    entries[folder, name] = inode
            elif op.kind == "cut":
                data[op.inode] = data.get(op.inode, b"")[: op.offset].ljust(op.offset, b"\0")
            else:
                written = op.data
                if j == choice.torn:
                    whole = len(written)
                    written = b"\0" * whole if choice.part is None else written[: int(whole * choice.part)]
                old = data.get(op.inode, b"").ljust(op.offset, b"\0")
                data[op.inode] = old[: op.offset] + written + old[op.offset + len(written) :]
        return self._tree(entries, data)

    def _tree(self, entries: dict[tuple[int, str], int], data: dict[int, bytes]) -> Tree:
        below = collections.defaultdict(list)
        for (folder, name), inode in entries.items():
            below[folder].append((name, inode))
        tree: Tree = {}
        waiting, seen = [(entries[0, os.path.basename(self.root)], "")], set()
        while waiting:
            folder, prefix = waiting.pop()
            if folder in seen:
                continue
            seen.add(folder)
            for name, inode in below[folder]:
                at, mode = prefix + name, self._modes.get(inode, 0)
                if self._kinds[inode] == "d":
                    tree[at] = ("d", b"", mode)
                    waiting.append((inode, f"{at}/"))
                elif self._kinds[inode] == "l":
                    tree[at] = ("l", self._links[inode], 0)
                else:
                    tree[at] = ("f", data.get(inode, b""), mode)
        return tree


def sample(recording: Recording, model: str, seed: int, most: int | None) -> Iterator[tuple[Choice, Tree]]:
    """Yields different states of `model` in an order that `seed` fixes.

    With `most`, that many: where the single losses are fewer, any other selections follow. Without, the single losses.
    """
    numbers = random.Random(seed)
    choices = list(recording.choices(model))
    numbers.shuffle(choices)
    more = (_any_choice(recording, model, numbers) for _ in range(20 * (most or 0)))
    seen: set[int] = set()
    for choice in (*choices, *more):
        if most is not None and len(seen) >= most:
            return
        tree = recording.build(choice)
        key = hash((frozenset(tree.items()), recording.printed[choice.moment]))
        if key not in seen:
            seen.add(key)
            yield choice, tree


def _any_choice(recording: Recording, model: str, numbers: random.Random) -> Choice:
    """Returns a moment and any selection of what was not flushed by then."""
    moment = numbers.randrange(len(recording.ops) + 1)
    must = recording.flushed(moment, model)
    upto = numbers.randrange(moment + 1)
    keep = []
    for j in range(moment):
        op = recording.ops[j]
        if op.kind in CHANGING:
            in_order = model == "ordered" and op.kind == "names"
            if j in must or (j < upto if in_order else numbers.random() < 0.5):
                keep.append(j)
    writes = [j for j in keep if j not in must and recording.ops[j].kind == "write"]
    torn = numbers.choice(writes) if writes else None
    return Choice(moment, f"after step {moment}: {keep}, {torn} in part", tuple(keep), torn, numbers.random())
