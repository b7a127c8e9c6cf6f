"""The completion of `atk` in the three shells, as the shells themselves understand it."""

import shutil
import subprocess

import pytest

from atk_mcp import snapshot
from atk_mcp.completing import script
from atk_mcp.inspector import build_parser, main

BASH = """
compopt() { :; }
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
_atk; printf '%s\\n' "${COMPREPLY[@]}"
"""
ZSH = """
compadd() { shift; print -rl -- "${(@M)@:#${words[CURRENT]}*}" }
_files() { print -l -- *(N) }
words=("$@"); CURRENT=$#
_atk
"""
FISH = """
complete -C (string join ' ' -- $argv)
"""


def offered(shell, folder, *words):
    """Returns what the shell offers for the last of the words, in order."""
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    file = folder / f"complete.{shell}"
    head = "compdef() { :; }\n" if shell == "zsh" else ""
    file.write_text(head + script(shell, build_parser()) + {"bash": BASH, "zsh": ZSH, "fish": FISH}[shell])
    options = ["--no-config"] if shell == "fish" else ["-f"] if shell == "zsh" else ["--norc"]
    done = subprocess.run(
        [shell, *options, str(file), "atk", *words],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "TERM": "dumb"},
    )
    assert done.stderr == ""
    return sorted(line.split("\t")[0] for line in done.stdout.splitlines() if line)


every_shell = pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])


@every_shell
def test_commands_operations_and_choices_are_offered(shell, tmp_path):
    assert offered(shell, tmp_path, "tr") == ["trace", "trajectory"]
    assert offered(shell, tmp_path, "call", "get_") == ["get_status"]
    operations = {tool["name"] for tool in snapshot.load()}
    assert operations <= set(offered(shell, tmp_path, "tools", ""))
    assert offered(shell, tmp_path, "key", "e") == ["export"]
    assert offered(shell, tmp_path, "install", "--client", "c") == ["claude-code", "codex", "cursor"]


@every_shell
def test_options_are_offered_to_who_begins_one(shell, tmp_path):
    assert offered(shell, tmp_path, "tools", "--t") == ["--toolsets"]
    assert "--request" in offered(shell, tmp_path, "call", "get_status", "--")
    assert not any(word.startswith("-") for word in offered(shell, tmp_path, "call", ""))


@every_shell
def test_a_file_is_offered_where_one_is_wanted(shell, tmp_path):
    (tmp_path / "wire.trace").touch()
    assert "wire.trace" in offered(shell, tmp_path, "trace", "show", "")
    assert "wire.trace" in offered(shell, tmp_path, "call", "get_status", "--request", "")


def test_the_command_prints_the_script_and_knows_no_other_shell(capsys):
    assert main(["completion", "bash"]) == 0
    assert "complete -F _atk atk" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        main(["completion", "tcsh"])
    assert ended.value.code == 2
