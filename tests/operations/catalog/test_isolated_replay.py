"""In place and isolated, a Revision is the same to its agent, in another folder; nothing of the user's is touched."""

import hashlib
import os
import stat
import sys

import pytest

from storage.errors import AtkError
from storage.schema.batches import Batch
from storage.schema.candidates import Candidate
from storage.schema.projects import Project as ProjectRecord
from storage.schema.rounds import Round
from tests.faults.story import Wire, until
from tests.support.projects import Target
from tests.support.rounds import ready_round, store, validate

AGENT = """\
import hashlib, os, subprocess, sys, time

def tree():
    total = hashlib.sha256()
    for name in sorted(os.listdir(".")):
        if os.path.isfile(name) and name not in ("cases.csv", "loose.txt"):
            link = os.path.islink(name)
            mode = "link" if link else "exec" if os.access(name, os.X_OK) else "file"
            data = os.readlink(name).encode() if link else open(name, "rb").read()
            total.update(f"{name} {mode} {len(data)} ".encode() + data)
    return total.hexdigest()

text = open(sys.argv[1], encoding="utf-8").read()
notes = os.environ.get("NOTES")
if notes:
    open(os.path.join(notes, "began"), "a").write(os.getcwd() + "\\n")
    while os.path.exists(os.path.join(notes, "hold")):
        time.sleep(0.02)
    if os.path.exists(os.path.join(notes, "litter")):
        open("litter.txt", "w").write("the agent's")
    if os.path.exists(os.path.join(notes, "nested")):
        subprocess.run(["git", "init", "-q", "nested"], check=True)
        open("nested/file", "w").close()
print(tree(), f"{os.getcwd():400}", os.path.exists("secret.txt") and open("secret.txt").read())
"""

TIMES = ("duration_seconds", "started_at", "ended_at")
FILTERED = {"crlf.txt": b"one\r\ntwo\r\n", "loud.up": b"HELLO\n", "lf.txt": b"plain\n"}


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NOTES", "")


class Odd(Target):
    """A target with a rename in its history, executable bits, a link, line endings, a filter, and the user's files."""

    def __init__(self, folder, **settings):
        self.notes = os.path.join(str(folder), "notes")
        os.makedirs(self.notes)
        super().__init__(os.path.join(str(folder), "target"), initialize=False)
        self.git("config", "core.autocrlf", "true")
        self.git("config", "filter.up.clean", "tr A-Z a-z")
        self.git("config", "filter.up.smudge", "tr a-z A-Z")
        self.git("config", "filter.up.required", "true")
        self.write(".gitattributes", "*.up filter=up -text\n")
        self.write(".gitignore", "cases.csv\nsecret.txt\n")
        self.write("agent.py", AGENT)
        for name, content in FILTERED.items():
            self.write(name, content)
        self.write("old.sh", "#!/bin/sh\necho\n")
        os.chmod(self.path("old.sh"), 0o755)
        os.symlink("prompt.txt", self.path("link"))
        self.git("add", ".")
        self.git("commit", "-q", "-m", "Odd files")
        self.git("mv", "old.sh", "renamed.sh")
        self.git("commit", "-q", "-m", "A rename")
        self.write("secret.txt", "declared")
        self.write("loose.txt", "the user's own\n")
        self.write_cases([("refund-1", "a", "x"), ("refund-2", "b", "x")])
        component = {"component_id": "key", "role": "config", "change_role": "fixed", "source_path": "secret.txt"}
        usual = {
            "command": [sys.executable, "-S", "agent.py", "{input_file}"],
            "components": [component],
            "allowed_paths": ["."],
            "protected_paths": ["agent.py"],
            "environment": ["NOTES"],
        }
        self.initialize(**{**usual, **settings})

    def note(self, name):
        with open(os.path.join(self.notes, name), "w", encoding="utf-8"):
            pass

    def unnote(self, name):
        os.unlink(os.path.join(self.notes, name))

    def frozen(self, **plan):
        """Opens and freezes a Round."""
        before = ready_plan(self, plan)
        return self.state.get(Round, before)

    def keep(self, round_id, edit):
        """Takes a change over without a comparison, by the person's word."""
        value = self.state.get(Round, round_id)
        made = self.call("prepare_candidate", round_id=round_id, primary_issue_id=value.issue_ids[0])
        edit()
        sealed = self.call("seal_candidate", round_id=round_id, candidate_id=made.candidate_id)
        validate(self, made.candidate_id)
        self.call(
            "decide_candidate",
            round_id=round_id,
            candidate_id=made.candidate_id,
            action="keep",
            reason="a test",
        )
        return sealed.revision_id

    def run(self, round_id, revision_id, **arguments):
        given = {"round_id": round_id, "revision_id": revision_id, "wait_seconds": 100, **arguments}
        return self.call("run_evaluation", **given)

    def records(self, batch_id):
        from storage import contents

        return list(contents.raw_records(self.project, self.state, batch_id))

    def outputs(self, batch_id):
        return {r["output"] for r in self.records(batch_id)}


def ready_plan(target, plan):
    """A frozen Round whose plan has `plan` besides what `ready_round` gives."""
    original = target.call

    def call(name, **arguments):
        if name == "freeze_round":
            arguments["plan"] = {**arguments["plan"], **plan, "budget": {"candidates": 3, "executions": 60}}
        return original(name, **arguments)

    target.call = call
    try:
        return ready_round(target)
    finally:
        target.call = original


def snapshot(target):
    """All of the user's: worktree with modes and times of change, index bytes, HEAD, refs, config; not the objects."""
    found = {}
    for folder, names, files in os.walk(target.root):
        inside = os.path.relpath(folder, target.root)
        names[:] = [
            n for n in names if not (inside == "." and n == ".atk") and not (inside == ".git" and n == "objects")
        ]
        for name in (*names, *files):
            path = os.path.join(folder, name)
            about = os.lstat(path)
            content = None
            if stat.S_ISLNK(about.st_mode):
                content = os.readlink(path)
            elif stat.S_ISREG(about.st_mode):
                with open(path, "rb") as file:
                    content = hashlib.sha256(file.read()).hexdigest()
            found[os.path.relpath(path, target.root)] = (about.st_mode, content)
    return found


def places(tmp_path):
    """The folders of isolated runs that there are."""
    found = []
    for folder, names, _ in os.walk(tmp_path / "cache"):
        if "worktree" in names:
            found.append(folder)
            names.clear()
    return found


def without_times(record, folder):
    """A Record without what two runs cannot have in common: ids, times, and the folder that the agent prints."""

    def plain(value, name=""):
        if isinstance(value, dict):
            return {k: plain(v, k) for k, v in value.items()}
        if isinstance(value, list):
            return [plain(v) for v in value]
        if name in TIMES:
            return "<time>"
        if isinstance(value, str):
            return " ".join(value.replace(record["id"], "<id>").replace(folder, "<folder>").split())
        return value

    return plain(record)


def edited(target):
    target.write("prompt.txt", b"refund -> billing\r\n")
    target.write("crlf.txt", b"one\r\ntwo\r\nthree\r\n")
    target.write("loud.up", b"HELLO AGAIN\n")
    os.rename(target.path("renamed.sh"), target.path("again.sh"))
    os.chmod(target.path("lf.txt"), 0o755)
    os.unlink(target.path("link"))
    os.symlink("again.sh", target.path("link"))


@pytest.mark.parametrize("which", ["baseline", "kept"])
def test_both_ways_of_replay_see_the_same_revision_and_leave_the_users_files_as_they_were(which, tmp_path):
    seen = {}
    for replay in ("in_place", "isolated"):
        target = Odd(tmp_path / replay)
        value = target.frozen(replay=replay)
        kept = target.keep(value.id, lambda target=target: edited(target))
        revision_id = value.baseline_revision_id if which == "baseline" else kept
        before, listed = snapshot(target), target.git("worktree", "list", "--porcelain")

        made = target.run(value.id, revision_id)

        assert made.status == "sealed", made
        assert snapshot(target) == before
        assert target.git("worktree", "list", "--porcelain") == listed
        assert places(tmp_path) == []
        seen[replay] = (made, target.records(made.batch_id), target.outputs(made.batch_id), target)

    (first, in_place, said, target), (second, isolated, also, other) = seen["in_place"], seen["isolated"]
    [(digest, folder, _)] = [output.split() for output in said]
    [(also_digest, elsewhere, secret)] = [output.split() for output in also]
    assert digest == also_digest
    assert folder == target.root
    assert elsewhere.startswith(str(tmp_path / "cache"))
    assert not elsewhere.startswith(other.root)
    assert secret == "declared"
    assert [without_times(r, folder) for r in in_place] == [without_times(r, elsewhere) for r in isolated]
    assert all((first.commit, second.commit))


def test_the_project_in_a_folder_of_its_repository_runs_in_that_folder(tmp_path):
    outer = Target(tmp_path / "outer", initialize=False)
    outer.write("inner/agent.py", "import os; print(os.getcwd(), os.path.exists('../prompt.txt'))\n")
    outer.write("inner/prompt.txt", "x\n")
    outer.git("add", ".")
    outer.git("commit", "-q", "-m", "inner")
    inner = Odd.__new__(Odd)
    inner.root, inner.notes = outer.path("inner"), str(tmp_path)
    inner.write_cases([("refund-1", "a", "x"), ("refund-2", "b", "x")])
    inner.initialize(command=[sys.executable, "-S", "agent.py"], components=[])
    value = inner.frozen(replay="isolated")

    made = inner.run(value.id, value.baseline_revision_id)

    assert made.status == "sealed", made
    [output] = inner.outputs(made.batch_id)
    folder, beside = output.split()
    assert folder.endswith("/worktree/inner")
    assert beside == "True"


def test_a_draft_and_edits_of_the_users_do_not_hinder_an_isolated_run_and_are_not_hindered(tmp_path, monkeypatch):
    target = Odd(tmp_path / "a")
    monkeypatch.setenv("NOTES", target.notes)
    value = target.frozen(replay="isolated")
    target.note("hold")
    begun = target.run(value.id, value.baseline_revision_id, case_ids=["refund-1"], wait_seconds=0)
    assert begun.status == "running"
    until(lambda: os.path.exists(os.path.join(target.notes, "began")), "the agent")

    draft = target.call("prepare_candidate", round_id=value.id, primary_issue_id=value.issue_ids[0])
    target.write("prompt.txt", "drafted\n")
    target.write("loose.txt", "edited meanwhile\n")
    second = target.run(value.id, None, wait_seconds=0)
    target.unnote("hold")
    ends = [target.call("wait_for_batch", batch_id=b.batch_id, wait_seconds=100) for b in (begun, second)]

    assert [end.status for end in ends] == ["sealed", "sealed"]
    assert second.revision_id == value.baseline_revision_id
    assert target.read("prompt.txt") == "drafted\n"
    assert target.state.get(Candidate, draft.candidate_id).status == "draft"
    assert len({*target.outputs(begun.batch_id), *target.outputs(second.batch_id)}) == 2
    assert places(tmp_path) == []


def test_edits_outside_the_scope_are_the_users_through_a_whole_candidate_of_an_isolated_round(tmp_path):
    target = Odd(tmp_path / "a", allowed_paths=["prompt.txt"])
    value = target.frozen(replay="isolated")
    named = {"round_id": value.id}

    def own():
        assert target.read("renamed.sh") == "edited by the user\n"
        assert target.read("loose.txt") == "edited too\n"

    target.write("renamed.sh", "edited by the user\n")
    target.write("loose.txt", "edited too\n")
    first = target.call("prepare_candidate", **named, primary_issue_id=value.issue_ids[0])
    target.write("prompt.txt", "a first try\n")
    cancelled = target.call("cancel_draft", **named, candidate_id=first.candidate_id, reason="a test")
    assert cancelled.restored_paths == ["prompt.txt"]
    own()
    second = target.call("prepare_candidate", **named, primary_issue_id=value.issue_ids[0])
    target.write("prompt.txt", "a second try\n")
    for action in ("pause", "resume"):
        moved = target.call("transition_round", **named, action=action, reason="a test")
        assert moved.changed_paths == ["prompt.txt"]
        own()
    sealed = target.call("seal_candidate", **named, candidate_id=second.candidate_id)
    assert sealed.changed_paths == ["prompt.txt"]
    assert "renamed.sh" in sealed.warnings[0]
    one = {**named, "candidate_id": second.candidate_id, "reason": "a test"}
    target.call("decide_candidate", **one, action="reject", validation_missing_reason="a test")
    own()
    assert target.read("prompt.txt") != "a second try\n"


@pytest.mark.parametrize(("replay", "code"), [("isolated", None), ("in_place", "surroundings_changed")])
def test_edits_outside_the_scope_hinder_the_end_of_a_round_only_where_it_ran_among_them(tmp_path, replay, code):
    target = Odd(tmp_path / "a", allowed_paths=["prompt.txt"])
    value = target.frozen(replay=replay)
    target.write("renamed.sh", "edited by the user\n")
    target.write("loose.txt", "edited too\n")
    ending = {"round_id": value.id, "action": "close_without_adoption", "reason": "a test"}
    if code is not None:
        with pytest.raises(AtkError) as refused:
            target.call("finish_round", **ending)
        assert refused.value.code == code
        return
    target.write("prompt.txt", "changed without a candidate\n")
    with pytest.raises(AtkError) as refused:
        target.call("finish_round", **ending)
    assert refused.value.code == "files_in_the_way"
    target.git("checkout", "-q", "prompt.txt")
    assert target.call("finish_round", **ending).status == "closed_without_adoption"
    assert target.read("renamed.sh") == "edited by the user\n"


@pytest.mark.parametrize("left", ["litter", "nested"])
def test_what_an_agent_leaves_in_its_folder_contaminates_the_batch_and_holds_nothing_up(left, tmp_path, monkeypatch):
    target = Odd(tmp_path / "a")
    monkeypatch.setenv("NOTES", target.notes)
    value = target.frozen(replay="isolated", concurrency=1)
    target.note(left)
    before = snapshot(target)

    made = target.run(value.id, value.baseline_revision_id)

    assert made.status == "contaminated"
    assert left in made.notes[0]
    assert snapshot(target) == before
    assert places(tmp_path) == []


def test_a_server_killed_in_the_middle_leaves_no_folder_and_no_worktree(tmp_path, monkeypatch):
    target = Odd(tmp_path / "a")
    monkeypatch.setenv("NOTES", target.notes)
    value = target.frozen(replay="isolated", concurrency=1)
    kept = target.keep(value.id, lambda: edited(target))
    before, listed = snapshot(target), target.git("worktree", "list", "--porcelain")
    target.note("hold")
    with Wire(target.notes) as server:
        given = {"project_path": target.root, "round_id": value.id, "revision_id": value.baseline_revision_id}
        batch_id = server.done("run_evaluation", **given, wait_seconds=0)["batch_id"]
        until(lambda: os.path.exists(os.path.join(target.notes, "began")), "the agent")
        assert len(places(tmp_path)) == 1
        server.process.kill()
        server.process.wait()
    target.unnote("hold")

    with Wire(target.notes) as server:
        status = server.done("get_status", project_path=target.root)
        assert [b["batch_id"] for b in status["running_batches"]] == [batch_id]
        assert not any("in the worktree" in warning for warning in status.get("warnings", []))
        [after] = status["next"]
        ended = server.done(after["tool"], project_path=target.root, **after["arguments"])

    assert ended["status"] in ("interrupted", "partial", "contaminated")
    assert places(tmp_path) == []
    assert snapshot(target) == before
    assert target.git("worktree", "list", "--porcelain") == listed
    assert target.run(value.id, kept).status == "sealed"


def test_a_folder_that_a_crash_after_the_sealing_left_is_taken_away(tmp_path):
    from storage.checkpoints.places import make_place

    target = Odd(tmp_path / "a")
    project_id = target.state.all(ProjectRecord)[0].id
    folder = str(tmp_path / "cache/atk/runs" / project_id / "batch-1-gone")
    make_place(folder, target.project.store.path)

    target.call("inspect_or_recover_operation")

    assert places(tmp_path) == []


def test_a_declared_file_that_the_user_edits_is_refused_by_name(tmp_path):
    target = Odd(tmp_path / "a")
    value = target.frozen(replay="isolated")
    target.write("secret.txt", "edited")

    with pytest.raises(Exception, match=r"secret\.txt") as refused:
        target.run(value.id, value.baseline_revision_id)

    assert refused.value.code == "surroundings_changed"


def test_freezing_says_what_is_absent_and_refuses_what_would_run_the_users_files(tmp_path):
    target = Odd(tmp_path / "a")
    round_id = ready_plan_preview(target, replay="isolated")
    shown = target.call("freeze_round", round_id=round_id, preview=True, plan=target.plan)
    assert any("loose.txt" in warning for warning in shown.warnings)
    assert shown.plan["replay"] == "isolated"
    target.initialize(
        revise=True,
        command=[sys.executable, target.path("agent.py")],
        allowed_paths=["."],
        components=[],
    )

    with pytest.raises(Exception, match="names your folder") as refused:
        target.call("freeze_round", round_id=round_id, preview=True, plan=target.plan)

    assert (refused.value.code, refused.value.facts["field"]) == ("plan_invalid", "replay")


def ready_plan_preview(target, **plan):
    """A Round that is diagnosed and not frozen; `target.plan` would freeze it."""
    original = target.call

    def call(name, **arguments):
        if name == "freeze_round":
            target.plan = {**arguments["plan"], **plan}
            return None
        return original(name, **arguments)

    target.call = call
    try:
        return ready_round(target)
    finally:
        target.call = original


def test_a_plan_from_before_isolation_is_read_as_it_was(tmp_path):
    """Its preparation was the project's, whatever it said itself."""
    from operations.tuning.running import preparation_of

    target = Odd(tmp_path / "a", replay_preparation={"argv": ["true"]})
    value = target.frozen()
    dumped = value.model_dump(mode="json")
    dumped["plan"]["replay_preparation"] = {"mode": "stateless", "reason": "r", "argv": [], "timeout_seconds": 120}

    store(target, Round.model_validate(dumped))

    found = target.state.get(Round, value.id)
    assert preparation_of(found.plan, target.state.all(ProjectRecord)[0]).argv == ("true",)
    assert target.state.all(Batch) == []


def test_an_isolated_run_that_was_stopped_is_continued_in_a_folder_of_its_own(tmp_path, monkeypatch):
    target = Odd(tmp_path / "a")
    monkeypatch.setenv("NOTES", target.notes)
    value = target.frozen(replay="isolated", concurrency=1)
    target.note("hold")
    begun = target.run(value.id, None, wait_seconds=0)
    until(lambda: os.path.exists(os.path.join(target.notes, "began")), "the agent")
    stopped = target.call("stop_batch", batch_id=begun.batch_id, wait_seconds=100)
    target.unnote("hold")

    made = target.call("run_evaluation", continue_batch_id=begun.batch_id, wait_seconds=100)

    assert (stopped.status, made.status, made.counts["completed"]) == ("interrupted", "sealed", 2)
    assert places(tmp_path) == []
