"""An attempt counts only when the files of its Case are the same before and after it."""

import hashlib
import os

import pytest

from operations.execution.attachments import copies, pinned, trouble


def pin(path, content=b"content"):
    return {"path": path, "sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}


def attach(bench, name="a.txt", content=b"content"):
    with open(os.path.join(bench.target, name), "wb") as file:
        file.write(content)
    return pin(name, content)


def test_attachments_that_stay_as_they_are_let_an_attempt_count(bench):
    [record] = bench.run(["cat", "a.txt"], attachments=[attach(bench)])
    assert (record.execution.status, record.output, record.execution.error) == ("completed", "content", None)


def test_an_attachment_that_is_missing_keeps_the_agent_from_being_started(bench):
    [record] = bench.run(bench.sh("touch ran"), attachments=[pin("gone.txt")])
    assert (record.execution.status, record.execution.end) == ("infra_error", "not_started")
    assert "'gone.txt' of the Case cannot be read: No such file" in record.execution.error
    assert not os.path.exists(os.path.join(bench.target, "ran"))


def test_an_attachment_that_an_agent_changes_makes_its_attempt_and_the_next_say_nothing(bench):
    records = bench.run(bench.sh("echo more >> a.txt"), "ab", attachments=[attach(bench)])
    assert [r.execution.status for r in records] == ["infra_error", "infra_error"]
    assert [r.execution.end for r in records] == ["exited", "not_started"]
    assert all("'a.txt' of the Case has changed" in r.execution.error for r in records)


def test_a_changed_attachment_is_named_for_an_attempt_that_timed_out_as_well(bench):
    command = bench.sh("rm a.txt; sleep 60")
    [record] = bench.run(command, attachments=[attach(bench)], timeout_seconds=0.5)
    assert (record.execution.status, record.execution.end) == ("infra_error", "timeout")
    assert "'a.txt'" in record.execution.error


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_not_a_regular_file_is_refused_without_waiting_for_it(tmp_path, make):
    make(tmp_path / "a")
    assert "cannot be read" in trouble(pinned([pin("a")], str(tmp_path)))


def test_attachments_without_a_digest_are_not_looked_at(tmp_path):
    assert pinned(["a.txt", {"path": "a.txt"}, {"sha256": "0"}], str(tmp_path)) == []
    assert trouble([]) is None


def test_an_absolute_path_is_taken_as_it_is(tmp_path):
    (tmp_path / "a").write_bytes(b"content")
    assert trouble(pinned([pin(str(tmp_path / "a"))], "/nowhere")) is None


def keeping(bench, content=b"content", name="a.txt"):
    """A folder of kept bytes, and the attachment that a Case names."""
    kept = os.path.join(bench.folder, "kept")
    os.makedirs(kept, exist_ok=True)
    attachment = pin(name, content)
    with open(os.path.join(kept, attachment["sha256"]), "wb") as file:
        file.write(content)
    return kept, attachment


def test_each_attempt_has_copies_of_its_own_that_are_gone_when_it_is_confirmed(bench):
    kept, attachment = keeping(bench, b"x" * (17 << 20))  # more than an agent can write
    command = [*bench.sh("chmod 500 $(dirname $1)/attachments; ls -l $(dirname $1)/attachments"), "sh"]
    records = bench.run([*command, "{attachments_file}"], "ab", attachments=[attachment], kept_attachments=kept)
    assert [r.execution.status for r in records] == ["completed", "completed"]
    assert all(str(17 << 20) in r.output for r in records)
    found = [name for _, folders, _ in os.walk(bench.work) for name in folders]
    assert "attachments" not in found


@pytest.mark.parametrize(("spoiled", "how"), [(None, "are missing"), (b"other", "have the SHA-256")])
def test_kept_bytes_that_are_damaged_keep_the_agent_from_being_started(bench, spoiled, how):
    kept, attachment = keeping(bench)
    path = os.path.join(kept, attachment["sha256"])
    os.unlink(path)
    if spoiled:
        with open(path, "wb") as file:
            file.write(spoiled)
    command = [*bench.sh("touch ran"), "sh", "{attachments_file}"]
    [record] = bench.run(command, attachments=[attachment], kept_attachments=kept)
    assert (record.execution.status, record.execution.end) == ("infra_error", "not_started")
    assert f"the attachment 'a.txt' {how}" in record.execution.error
    assert not os.path.exists(os.path.join(bench.target, "ran"))


def test_a_file_that_a_case_names_twice_is_copied_once(tmp_path):
    (tmp_path / "kept").mkdir()
    attachment = pin("b/a.txt")
    (tmp_path / "kept" / attachment["sha256"]).write_bytes(b"content")
    found = copies([attachment, attachment], str(tmp_path / "kept"), str(tmp_path / "copies"))
    assert [each["path"] for each in found] == [str(tmp_path / "copies" / "b" / "a.txt")] * 2
    assert (tmp_path / "copies" / "b" / "a.txt").read_bytes() == b"content"
