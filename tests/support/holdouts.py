"""A target with holdout Cases whose contents and outputs carry marks, and a Round whose final sides are to be run."""

from __future__ import annotations

import json
import os
from typing import Any

from storage.projection import State
from storage.schema.rounds import Round
from tests.operations.catalog import stages
from tests.support.projects import CASES, Target

MARK = "MARK-"
"""Every mark begins so."""

AGENT = """\
text=$(cat "$1")
case "$text" in *quux*)
  echo '[{"event": "MARK-LOADED"}]' > "$2/loading.json"
  echo '{"tool_result": "MARK-EVENT"}' > "$3"
  echo "MARK-LEFT" > "$2/left.txt"
  cat $(sed -n 's/.*"path": "\\([^"]*\\)".*/\\1/p' "$4") /dev/null >&2
  if [ -e slow ]; then echo begun > begun; sleep 100; fi
  echo MARK-OUT
  exit 0;;
esac
while read -r word arrow queue; do
  case "$text" in *"$word"*) echo "$queue"; exit 0;; esac
done < prompt.txt
echo other
"""
"""Looks words up as the agent of `tests.operations.catalog.stages` does; a holdout Case makes it leave marks."""

COMMAND = ["sh", "agent.sh", "{input_file}", "{output_dir}", "{events_file}", "{attachments_file}"]
HOLDOUT = (
    {"id": "blind-1", "input": "MARK-IN quux one", "expected": "MARK-OUT", "usage": "holdout", "source_group_id": "g1"},
    {"id": "blind-2", "input": "MARK-IN quux two", "expected": "MARK-WANTED", "usage": "holdout"},
)
LADDER = ("evaluated", "assessed", "opened", "diagnosed", "frozen", "drafted", "sealed", "judged", "compared", "kept")


def stored(root: str) -> stages.Staged:
    """Returns a target whose dataset has usual Cases and `HOLDOUT`, of which the first has an attachment."""
    made = stages.Staged(root, {})
    Target(made.root, initialize=False)
    made.write("agent.sh", AGENT)
    made.write(".gitignore", "cases.*\nslow\nbegun\natt\n")
    made.write("att/h.txt", "MARK-ATTACHED\n")
    made.git("rm", "-q", "agent.py")
    made.git("add", ".")
    made.git("commit", "-q", "--amend", "-m", "The agent")
    made.ids["commit"] = made.head
    components = [{"component_id": "prompt", "role": "prompt", "change_role": "variable", "source_path": "prompt.txt"}]
    made.initialize(command=COMMAND, components=components, protected_paths=["agent.sh"])
    usual = [dict(zip(("id", "input", "expected"), case, strict=True)) for case in CASES]
    blind = [{**HOLDOUT[0], "attachments": ["att/h.txt"]}, HOLDOUT[1]]
    made.write("cases.jsonl", "".join(json.dumps(row) + "\n" for row in (*usual, *blind)))
    made.ids["dataset_id"] = made.call("store_dataset", source="cases.jsonl").dataset_id
    return made


def kept(root: str) -> stages.Staged:
    """Returns that target with a Round that keeps a candidate, and no final side run."""
    made = stored(root)
    for stage in LADDER:
        stages.LADDER[stage](made)
    return made


def readable(root: str, *, skip: str = "") -> list[str]:
    """Returns the files under `.atk/` in which a mark can be read, but those below `skip`."""
    found = []
    for folder, _, names in os.walk(os.path.join(root, ".atk")):
        for name in names:
            path = os.path.join(folder, name)
            relative = os.path.relpath(path, root)
            if skip and relative.startswith(skip):
                continue
            with open(path, "rb") as file:
                if MARK.encode() in file.read() or MARK in relative:
                    found.append(relative)
    return found


def ids_of(state: State) -> list[str]:
    """Returns the id of everything that is stored, and of every journal record."""
    named = [object_id for records in state.objects.values() for object_id in records]
    return [*named, *(f"journal-{n}" for n in range(1, state.position.number + 1))]


def plan_of(target: Any) -> Any:
    """Returns the frozen plan of the target's Round."""
    return target.state.get(Round, target.round_id).plan
