"""`atk init`: looks, asks, shows what would be written, makes the project, and starts its agent once."""

from __future__ import annotations

import argparse
import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from atk_mcp import results
from atk_mcp.approving import at_terminal
from atk_mcp.exits import INTERRUPTED, OK, REFUSED, refused
from atk_mcp.starting import dialogue, finding, trying
from atk_mcp.starting.asking import AnswersEnded, Asking, NobodyToAsk, one_of, person_at_terminal
from atk_mcp.starting.dialogue import Started
from atk_mcp.starting.entries import Guess, skill_folders
from atk_mcp.stopping import Asked, stoppable
from atk_mcp.terminal import ProgressLine, complain, say
from operations import commits
from operations.catalog.projects.initialize_project import InitializeProjectRequest
from operations.invocation import FolderMissing, invoke
from operations.registry import all_operations
from storage.errors import AtkError
from storage.git import Git
from storage.project import Project, ProjectNotInitialized
from storage.schema.projects import Project as ProjectRecord
from storage.worktree import ready, shown_path, surroundings

_INPUT = "Hello"
_DIRTY = 4
"""How many files are named that have to be committed before a first run."""
_ROWS = ("id,input,expected", 'late-1,"Where is my parcel?",shipping', 'bill-1,"My invoice is wrong",billing')


class _Stopped(Exception):
    """The person asked to stop while an operation was under way; it ended in order."""


@dataclass
class _Done:
    """What came of it, for `--json` and for the exit status."""

    found: dict[str, Any]
    request: dict[str, Any] | None = None
    initialized: dict[str, Any] | None = None
    tried: dict[str, Any] | None = None
    refusal: dict[str, Any] | None = None


def init(given: argparse.Namespace, root: str) -> int:
    """Runs the command in a folder. Returns its exit status.

    Raises:
        AtkError: The folder cannot be made a project, or nobody is there to be asked.
    """
    if not os.path.isdir(root):
        raise FolderMissing(given=root)
    if (known := _project(root)) is not None:
        return _told_of(Asking(), known, root, as_json=given.json)
    if not given.yes and not person_at_terminal():
        raise NobodyToAsk
    # Where stdout goes into a file, a person would not see the questions there.
    asking = Asking(yes=given.yes, aside=given.json or not (given.yes or os.isatty(1)))
    begun = _Begun(asking, root, dry_run=given.dry_run, without_git=given.without_git)
    try:
        status = begun.walk()
    except AnswersEnded:
        complain(f"\natk init: the answers ended before the last question. {begun.left()}")
        status = REFUSED
    except (KeyboardInterrupt, _Stopped):
        complain(f"\natk init: stopped. {begun.left()}")
        status = INTERRUPTED
    except AtkError as error:
        begun.done.refusal = results.refusal(error)
        status = refused(error, as_json=given.json, project=given.project)
    if given.json:
        say(results.compact({k: v for k, v in vars(begun.done).items() if v is not None}))
    return status


def _project(root: str) -> ProjectRecord | None:
    try:
        return Project.open(root).state().all(ProjectRecord)[0]
    except ProjectNotInitialized:
        return None


def _told_of(asking: Asking, known: ProjectRecord, root: str, *, as_json: bool) -> int:
    """Says that there is a project, what its configuration is, and how to revise it."""
    request = as_request(known)
    if as_json:
        say(results.compact({"project_id": known.id, "request": request}))
        return REFUSED
    asking.tell(f"{root} is {known.id} already; nothing was changed. Its configuration, as a request that revises it:")
    asking.show(as_lines(request))
    asking.tell("To change it, save that as init.json, edit it, and run:")
    asking.show(f"  atk call initialize_project{_there(root)} --request init.json")
    asking.tell(f"`atk status{_there(root)}` says what is open, and what to do next.")
    return REFUSED


def as_request(known: ProjectRecord) -> dict[str, Any]:
    """Returns the request of initialize_project that says a project's present configuration again."""
    stored = known.model_dump(mode="json", exclude_defaults=True)
    same = {name: stored[name] for name in InitializeProjectRequest.model_fields if name in stored}
    effects = [effect.model_dump(mode="json", exclude_none=True) for effect in known.external_effects]
    permitted = [
        {name: value for name, value in permission.items() if name != "script_sha256"}
        for permission in same.pop("probe_permissions", ())
    ]
    if not same.get("analysis_only", True):
        del same["analysis_only"]
    return {
        **same,
        **({"external_effects": effects} if known.runnable else {}),
        **({"probe_permissions": permitted} if permitted else {}),
        "revise": True,
    }


def as_lines(request: Mapping[str, Any]) -> str:
    """Returns a request as JSON with a line for each field, and for each object in a field's list."""
    told = []
    for name, value in request.items():
        if isinstance(value, list) and any(isinstance(item, dict) for item in value):
            inside = ",\n    ".join(json.dumps(item, ensure_ascii=False) for item in value)
            text = f"[\n    {inside}\n  ]"
        else:
            text = json.dumps(value, ensure_ascii=False)
        told.append(f"  {json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(told) + "\n}"


class _Begun:
    """One walk through the questions, and how far it came."""

    def __init__(self, asking: Asking, root: str, *, dry_run: bool, without_git: bool) -> None:
        self.asking = asking
        self.root = root
        self.dry_run = dry_run
        self.without_git = without_git
        self.found = finding.look(root)
        self.done = _Done(found=_summary(self.found))
        self.calling = False
        """Whether an operation is under way."""
        self.tried_on = _INPUT

    def left(self) -> str:
        """Returns what is there when the walk ends early."""
        if self.calling:
            return f"What was recorded stays; `atk status{_there(self.root)}` says what there is."
        if self.done.initialized is None:
            return "Nothing was written."
        return f"{self.done.initialized['project_id']} is made; `atk status{_there(self.root)}` says what to do next."

    def walk(self) -> int:
        """Asks, shows, makes, tries. Returns the exit status."""
        self._tell_found()
        git = self._git()
        if git is None:
            return REFUSED
        request, started = dialogue.request(self.asking, self.found, git=git)
        self.done.request = request
        self.asking.tell("\nThis is what initialize_project is called with:")
        self.asking.show(as_lines(request))
        if self.dry_run:
            self.asking.tell("\nNothing was written and nothing was started, as --dry-run says.")
            return OK
        if not self.asking.confirm("make", "\nMake the project, a folder .atk here that Git ignores?"):
            self.asking.tell("Nothing was written.")
            return REFUSED
        self.done.initialized = self._call("initialize_project", request)
        self._tell_answer(self.done.initialized)
        status = self._try(started) if started is not None else OK
        self._farewell(status, started)
        return status

    def _tell_found(self) -> None:
        found = self.found
        kinds = ", ".join(found.languages[:3]) or "no code"
        skills = skill_folders(found)
        self.asking.tell(
            f"{self.root}: {_counted(len(found.files), 'file')}, {kinds}"
            + (f", {_counted(len(skills), 'Skill')}" if skills else "")
            + "."
        )
        if not self.asking.yes:
            self.asking.tell(
                "Enter takes what stands in brackets. Nothing is written before you have seen it; Ctrl-C leaves."
            )
        if found.left_out:
            told = ", ".join(f"{reason} ({number:,})" for reason, number in sorted(found.left_out.items()))
            self.asking.tell(f"Not looked at: {told}.", indent="  ")

    def _git(self) -> bool | None:
        """Returns whether there is a repository to build on; None where the person stops to put it right first."""
        try:
            git = Git(self.root)
            try:
                head = ready(git)
            finally:
                git.close()
        except AtkError as error:
            self.done.found["git"] = {"code": error.code, "message": str(error)}
            self.asking.tell(f"\nGit: {error}")
            ways = (
                "stop here, and run atk init again when Git is ready",
                "go on without it: evidence can be imported and the agent tried; runs that count and changes need Git",
            )
            for number, way in enumerate(ways, 1):
                self.asking.show(f"  {number}  {way}")
            default = "2" if self.without_git else "1"
            if self.asking.ask("git", "Its number", default, one_of(ways)) == 0:
                self.asking.tell("Nothing was written. --without-git takes the other way; a new repository is made by:")
                self.asking.show("  git init && git add -A && git commit -m Start")
                return None
            return False
        branch = (head.branch or "").removeprefix("refs/heads/") or "no branch"
        self.done.found["git"] = {"branch": head.branch, "commit": head.commit}
        self.asking.tell(f"Git: {branch} at {head.commit[:12]}.")
        if traces := commits.left_behind(self.root):
            self.asking.tell(f"\n{traces}")
        return True

    def _call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Runs an operation as `atk call` does, and returns its answer."""
        asked = Asked()
        self.calling = True
        with ProgressLine() as progress, stoppable(asked, quiet=self.asking.aside):
            answer = invoke(
                all_operations()[name],
                {**arguments, "project_path": self.root},
                progress=progress,
                cancelled=asked,
                stays=True,
                ask=None if self.asking.yes else at_terminal(),
            )
        self.calling = False
        told = results.payload(answer)
        if asked():
            if name == "initialize_project":
                self.done.initialized = told
            raise _Stopped
        return told

    def _tell_answer(self, answer: Mapping[str, Any]) -> None:
        self.asking.tell(f"\n{answer['message']}")
        for warning in answer.get("warnings", ()):
            self.asking.tell(str(warning), indent="  ")

    def _try(self, started: Started) -> int:
        """Starts the agent on one input until it answers or the person has seen enough. Returns the exit status."""
        request = self.done.request or {}
        if open_effects := [x["name"] for x in request.get("external_effects", ()) if "protection" not in x]:
            self.asking.tell(
                f"\nThe agent was not started: nothing protects {', '.join(open_effects)} yet. Say in external_effects "
                "what does, or leave out what it cannot reach."
            )
            return REFUSED
        if (program := dialogue.program_missing(self.found, request)) is not None:
            self.asking.tell(f"\nThe agent was not started: there is no program {program} on this machine. Install it.")
            return REFUSED
        if not self.asking.confirm("try", "\nStart the agent once now, to see that it answers? Nothing of it is kept."):
            return OK
        self.tried_on = text = self.asking.ask("try_input", "On which input?", _INPUT, str)
        while True:
            self.done.tried = self._call("try_case", {"input": text})
            smoke = self.done.tried["smoke"]
            self._tell_attempt(started, text)
            if trying.answered(smoke):
                return OK
            other = trying.wants(smoke, started.placement)
            question = "Hand over the input another way, and try again?"
            movable = started.placement is not None and not self.asking.yes
            if not movable or not self.asking.confirm("again", question, default=other is not None):
                return REFUSED
            guess = Guess(other or started.placement or "argument", "what the attempt suggests")
            started = dialogue.placed(self.asking, started.entry, guess)
            request = {**request, **started.fields}
            self.done.request = request
            self.done.initialized = self._call("initialize_project", {**request, "revise": True})
            self._tell_answer(self.done.initialized)

    def _tell_attempt(self, started: Started, text: str) -> None:
        answer = self.done.tried or {}
        self.asking.tell(f"\nOn {text!r}:")
        for line in trying.in_words(answer["smoke"]):
            self.asking.tell(line, indent="  ")
        advised = trying.advice(answer["smoke"], started.placement)
        for line in [*advised, *(str(x) for x in answer.get("warnings", ()))]:
            self.asking.tell(line, indent="  ")
        if not advised:
            self.asking.tell("Your agent starts and answers.")

    def _farewell(self, status: int, started: Started | None) -> None:
        """Names the commands that lead on."""
        there, tell, show = _there(self.root), self.asking.tell, self.asking.show
        tell("\nTo change the configuration: `atk init` again shows it, and how to revise it.")
        if started is None:
            tell("Next, the evidence that you have; the dry run says what fits and which request to send:")
            request = '{"source": "export.json", "source_kind": "langfuse", "dry_run": true}'
            show(f"  atk call import_evidence{there} --request '{request}'")
            return
        if status != OK:
            tell("First put right what is said above, and try the agent again until it answers:")
            request = json.dumps({"input": self.tried_on}, ensure_ascii=False)
            show(f"  atk call try_case{there} --request {shlex.quote(request)}")
        tell("Next, your Cases, one row for each task, in a file such as cases.csv:")
        for row in _ROWS:
            show(f"    {row}")
        show(f"""  atk call store_dataset{there} --request '{{"source": "cases.csv"}}'""")
        if (self.done.request or {}).get("analysis_only"):
            tell("Runs need Git: once there is a first commit, revise the configuration and leave analysis_only out.")
            return
        tell(
            "Then your agent's first evaluation: one attempt for each Case, at a commit that holds what may be changed."
        )
        show(f"""  atk call run_evaluation{there} --request '{{"revision_commit": "HEAD"}}'""")
        if dirty := self._uncommitted():
            tell(f"Commit or restore before it, since tracked files have to be as HEAD has them: {dirty}.", indent="  ")
        tell(f"`atk cases BATCH{there}` shows each attempt then, and `atk status{there}` always says what is next.")
        tell("Or from Codex: `atk install`, start Codex here, and begin with $atk:atk-dataset.")

    def _uncommitted(self) -> str:
        """Returns the tracked files that are not as HEAD has them, as words; nothing where all are."""
        git = Git(self.root)
        try:
            paths = sorted(shown_path(git, path) for path in surroundings(git).dirty)
        finally:
            git.close()
        return ", ".join(paths[:_DIRTY]) + (f" and {len(paths) - _DIRTY} more" if len(paths) > _DIRTY else "")


def _summary(found: finding.Found) -> dict[str, Any]:
    return {
        "files": len(found.files),
        "languages": found.languages,
        "skills": [folder or "." for folder in skill_folders(found)],
        "left_out": dict(found.left_out),
    }


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def _there(root: str) -> str:
    return "" if os.path.realpath(os.getcwd()) == root else f" --project {shlex.quote(root)}"
