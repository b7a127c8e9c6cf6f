"""Faults of what a candidate may be and an agent is given: scope, executables, binaries, links, inputs (B11-B13)."""

import json
import os
import stat

import pytest

from operations.tuning.scope import OutOfScope
from tests.faults.story import AGENT, REFUNDS, Story


def test_b11_a_scope_is_a_path_or_a_glob_and_never_a_prefix_of_a_name(tmp_path):
    """In ATK 1.0.0 a scope was a literal prefix: `prompt` let `prompt_secret.txt` in, and a glob matched nothing."""
    files = [("prompt_secret.txt", "s\n"), ("rules/a.txt", "a\n"), ("rules/deep/b.txt", "b\n"), ("rules/c.md", "c\n")]
    scope = {"allowed_paths": ["prompt.txt", "prompt", "rules/**/*.txt"], "protected_paths": ["rules/a.txt"]}
    story = Story(tmp_path, files=files, **scope).open()
    candidate_id = story.draft()
    story.target.write("prompt.txt", REFUNDS)
    for name, problem in (
        ("prompt_secret.txt", "Changed outside allowed_paths"),
        ("rules/c.md", "Changed outside allowed_paths"),
        ("rules/a.txt", "Changed but protected"),
    ):
        before = story.target.read(name)
        story.target.write(name, "changed\n")
        with pytest.raises(OutOfScope) as refused:
            story.seal(candidate_id)
        assert (refused.value.problem, refused.value.paths) == (problem, [name])
        story.target.write(name, before)
    story.target.write("rules/deep/b.txt", "changed\n")
    assert story.seal(candidate_id).changed_paths == ["prompt.txt", "rules/deep/b.txt"]


def test_b11_a_dot_allows_the_whole_project(tmp_path):
    """In ATK 1.0.0 `.` matched nothing, which was found when the candidate was sealed."""
    story = Story(tmp_path, allowed_paths=["."], protected_paths=[]).open()
    candidate_id = story.draft()
    story.target.write("anywhere/at/all.txt", "new\n")
    assert story.seal(candidate_id).changed_paths == ["anywhere/at/all.txt"]


def change_everything(target):
    """An executable, a binary, a link, a mode alone and a deletion, in one candidate."""
    target.write("kit/run.sh", "#!/bin/sh\necho changed\n")
    os.chmod(target.path("kit/run.sh"), 0o755)
    target.write("kit/model.bin", bytes(range(256)) * 5)
    os.remove(target.path("kit/link"))
    os.symlink("model.bin", target.path("kit/link"))
    os.chmod(target.path("kit/plain.sh"), 0o755)
    os.remove(target.path("kit/old.txt"))
    target.write("prompt.txt", REFUNDS)


@pytest.fixture
def kit(tmp_path):
    files = [("kit/run.sh", "#!/bin/sh\necho as it was\n"), ("kit/model.bin", b"\0\1\2"), ("kit/old.txt", "old\n")]
    files += [("kit/plain.sh", "#!/bin/sh\n"), ("kit/link.txt", "here\n")]
    story = Story(tmp_path, files=files, allowed_paths=["prompt.txt", "kit"])
    os.chmod(story.target.path("kit/run.sh"), 0o755)
    os.symlink("link.txt", story.target.path("kit/link"))
    story.target.git("add", ".")
    story.target.git("commit", "-q", "-m", "A kit")
    return story.open()


def test_b12_executable_binary_linked_and_deleted_files_are_kept_as_they_are(kit):
    """ATK 1.0.0 refused such a candidate when it was sealed, after the work was done."""
    kit.keep(lambda: change_everything(kit.target))
    assert kit.dirty() == ""
    listed = kit.target.git("ls-tree", "-r", "HEAD", "kit").splitlines()
    modes = {line.split("\t")[1]: line.split()[0] for line in listed}
    assert modes == {
        "kit/link": "120000",
        "kit/link.txt": "100644",
        "kit/model.bin": "100644",
        "kit/plain.sh": "100755",
        "kit/run.sh": "100755",
    }
    with open(kit.target.path("kit/model.bin"), "rb") as file:
        assert file.read() == bytes(range(256)) * 5


def test_b12_they_are_put_back_as_they_were_by_a_rejection_and_for_a_run_of_the_baseline(kit):
    """ATK 1.0.0 knew no modes, links or binary files in a restore."""
    candidate_id = kit.draft()
    change_everything(kit.target)
    kit.seal(candidate_id)
    run = kit.run()
    assert run.status == "sealed"
    assert kit.outputs(run.batch_id)["refund-1"] == "other"
    assert os.readlink(kit.target.path("kit/link")) == "model.bin"
    kit.decide(candidate_id, "reject", validation_missing_reason="a test")
    assert kit.dirty() == ""
    assert os.readlink(kit.target.path("kit/link")) == "link.txt"
    assert not stat.S_IMODE(os.stat(kit.target.path("kit/plain.sh")).st_mode) & 0o111
    assert stat.S_IMODE(os.stat(kit.target.path("kit/run.sh")).st_mode) & 0o100


def test_b13_an_input_that_is_an_object_reaches_the_agent_as_json(tmp_path):
    """ATK 1.0.0 handed it on as Python's repr: `{'a': None, 'b': True}`, which no JSON reader takes."""
    story = Story(tmp_path, agent=AGENT, command=["printf", "%s", "{input}"])
    given = {"a": None, "b": True, "c": ["é", 1.5, {"d": "\u2028"}]}
    story.target.write("cases.csv", "")
    path = tmp_path / "cases.jsonl"
    path.write_text(json.dumps({"id": "object", "input": given}) + "\n", encoding="utf-8")
    story.dataset_id = story.call("store_dataset", source=str(path)).dataset_id
    run = story.evaluate_head()
    assert json.loads(story.outputs(run.batch_id)["object"]) == given
