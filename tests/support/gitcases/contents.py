"""Hostile cases: names, conversions between disk and blob, and programs that Git would run."""

from __future__ import annotations

import os

from tests.support.gitcases.builder import Builder, Meanwhile, case

ODD = [
    b"new\nline.txt",
    b"tab\there.txt",
    b'quo"te.txt',
    b"back\\slash.txt",
    b" lead and trail ",
    b"-n",
    b"--upload-pack=x",
    b"caf\xe9-latin1.txt",
    b"\xff\xfe.bin",
    "naïve-ñ-😀.md".encode(),
    b"semi;colon$(touch pwned)`id`.txt",
    b"star*.py",
    b"[abc].txt",
    b":(top)magic.txt",
    b"a" * 200 + b".txt",
    b"\x1b[31mred.txt",
    "rtl-\u202egpj.exe".encode(),
]


@case(
    why="newline, tab, quote, leading dash, not UTF-8, glob and pathspec magic, terminal escapes",
)
def odd_names(b: Builder) -> None:
    b.base()
    for n in ODD:
        b.w(os.fsdecode(n), b"odd\n")
    b.g("add", "-A", "--", ".")
    b.commit()


@case(
    why="README and readme both tracked: fine here; on a case-insensitive disk it must refuse",
    keep="ok",
)
def case_collision(b: Builder) -> None:
    b.base()
    b.w("README", "upper\n")
    b.w("readme", "lower\n")
    b.commit()


@case(why="NFC and NFD forms of one name are two files on Linux, one on macOS")
def unicode_forms(b: Builder) -> None:
    b.base()
    b.w("caf\u00e9.txt", "nfc\n")
    b.w("cafe\u0301.txt", "nfd\n")
    b.commit()


@case(why="autocrlf=true over files that are LF on disk and others that are CRLF: each comes back as it was")
def autocrlf_true(b: Builder) -> None:
    b.base()
    b.w("data/windows.txt", b"one\r\ntwo\r\n")
    b.g("config", "core.autocrlf", "true")
    b.commit()


@case(
    why="safecrlf=true makes add die on mixed endings",
    mid=Meanwhile(after="freeze", shell="printf 'a\\r\\nb\\nc\\r\\n' > prompt.md"),
)
def safecrlf_mixed(b: Builder) -> None:
    b.base()
    b.g("config", "core.autocrlf", "true")
    b.g("config", "core.safecrlf", "true")
    b.g("add", "--renormalize", "-A")
    b.g("checkout-index", "-fa", ok=False)
    b.g("status", ok=False)


@case(
    why=".gitattributes eol=crlf and -text binary",
)
def attributes_eol(b: Builder) -> None:
    b.base()
    b.w(".gitattributes", "*.bat text eol=crlf\n*.bin -text\n")
    b.w("x.bat", b"echo\r\n")
    b.w("y.bin", bytes(range(256)))
    b.commit()


@case(why="a working clean/smudge filter (upper on disk, lower in Git) round-trips")
def filter_roundtrip(b: Builder) -> None:
    b.base()
    b.g("config", "filter.up.clean", "tr A-Z a-z")
    b.g("config", "filter.up.smudge", "tr a-z A-Z")
    b.g("config", "filter.up.required", "true")
    b.w(".gitattributes", "*.up filter=up\n")
    b.w("t.up", "HELLO\n")
    b.commit()


@case(
    freeze="filter_unstable",
    why="a clean filter that adds the time: the same file never hashes twice the same",
)
def filter_unstable(b: Builder) -> None:
    b.base()
    b.g("config", "filter.t.clean", "cat; date +%N")
    b.w(".gitattributes", "*.t filter=t\n")
    b.w("a.t", "x\n")
    b.commit()


@case(why="working-tree-encoding=UTF-16 file")
def utf16_encoding(b: Builder) -> None:
    b.base()
    b.w(".gitattributes", "*.u16 working-tree-encoding=UTF-16 text\n")
    b.w("a.u16", "hello\n".encode("utf-16"))
    b.commit()


@case(why="ident $Id$ expansion differs on disk")
def ident_keyword(b: Builder) -> None:
    b.base()
    b.w(".gitattributes", "*.k ident\n")
    b.w("a.k", "$Id$\n")
    b.commit()
    os.unlink(os.path.join(b.r, "a.k"))
    b.g("checkout", "--", "a.k")


@case(
    why="hooks must not run and must not block: pre-commit fails, post-* and reference-transaction leave marks",
)
def hooks(b: Builder) -> None:
    b.base()
    for h in (
        "pre-commit",
        "commit-msg",
        "post-commit",
        "post-checkout",
        "reference-transaction",
        "post-index-change",
        "post-rewrite",
        "prepare-commit-msg",
        "pre-auto-gc",
    ):
        b.w(f".git/hooks/{h}", f"#!/bin/sh\ntouch '{b.d}/HOOK-{h}'\nexit 1\n", 0o755)


@case(why="hooksPath in the project itself")
def hooks_path(b: Builder) -> None:
    b.base()
    b.w(".husky/pre-commit", f"#!/bin/sh\ntouch '{b.d}/HOOK-husky'\nexit 1\n", 0o755)
    b.commit()
    b.g("config", "core.hooksPath", ".husky")


@case(why="commit.gpgsign with a signer that hangs on a prompt")
def gpgsign(b: Builder) -> None:
    b.base()
    b.w("../fakegpg", f"#!/bin/sh\ntouch '{b.d}/GPG-RAN'\nexit 2\n", 0o755)
    b.g("config", "commit.gpgsign", "true")
    b.g("config", "tag.gpgsign", "true")
    b.g("config", "gpg.program", os.path.join(b.d, "fakegpg"))


@case(why="core.fsmonitor names a program: status would run it and trust its lies")
def fsmonitor_hook(b: Builder) -> None:
    b.base()
    b.w("../fsm", f"#!/bin/sh\ntouch '{b.d}/FSM-RAN'\nprintf 'tok\\0'\n", 0o755)
    b.g("config", "core.fsmonitor", os.path.join(b.d, "fsm"))
