"""A program is found as the agent itself would find it, and what it prints is kept up to the limit, whole."""

import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operations.execution import agents

LIMIT = 40


def program(bench, text, mode=0o700):
    folder = os.path.join(bench.target, "bin")
    os.mkdir(folder)
    path = os.path.join(folder, "mine")
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, mode)
    return {"PATH": folder + os.pathsep + os.environ["PATH"]}


def test_a_program_is_looked_for_in_the_agents_own_path(bench):
    [record] = bench.run(["mine"], environment=program(bench, "#!/bin/sh\necho mine\n"))
    assert record.output == "mine\n"


@pytest.mark.parametrize(("mode", "says"), [(0o600, "Permission denied"), (0o700, "Exec format error")])
def test_a_program_that_cannot_be_run_is_named_with_the_reason(bench, mode, says):
    [record] = bench.run(["mine"], environment=program(bench, "echo mine\n", mode))
    assert record.execution.status == "infra_error"
    assert says in record.execution.error
    assert "bin/mine" in record.execution.error


def test_a_relative_program_is_looked_for_in_the_working_directory(bench):
    program(bench, "#!/bin/sh\necho mine\n")
    [record] = bench.run(["bin/mine"])
    assert record.output == "mine\n"


def test_every_attempt_begins_in_the_folder_that_is_there_by_then(bench):
    script = 'ls; mv "$PWD" "$PWD.$0" && mkdir "$PWD" && touch "$PWD/after-$0"'
    records = bench.run(["sh", "-c", script, "{case_id}"], "ab")
    assert [record.output for record in records] == ["", "after-c0\n"]


@given(st.lists(st.binary(max_size=30), max_size=6), st.sampled_from([0, 10, 1000]))
def test_a_capture_keeps_the_beginning_and_says_whether_there_was_more(tmp_path_factory, pieces, held):
    path = os.path.join(tmp_path_factory.mktemp("capture"), "stdout")
    data = b"".join(pieces)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agents, "HELD_BYTES", held)
        capture = agents.Capture(path, LIMIT)
        for piece in pieces:
            if capture.handle is not None:
                os.write(capture.for_agent, piece)
                capture.pump()
        capture.started()
        capture.finish()
        capture.close()
    assert (capture.size, capture.full, capture.trouble) == (min(len(data), LIMIT), len(data) > LIMIT, None)
    assert kept(capture, path) == data[:LIMIT]


def kept(capture, path):
    if capture.text is not None:
        assert not os.path.exists(path)
        return capture.text.encode("utf-8", "surrogateescape")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    with open(path, "rb") as file:
        return file.read()


def test_a_link_in_the_place_of_the_attempts_folder_is_not_followed(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "folder").symlink_to(tmp_path / "elsewhere")
    capture = agents.Capture(str(tmp_path / "folder" / "stdout"), LIMIT)
    os.write(capture.for_agent, b"text")
    capture.pump()
    capture.spill()
    capture.close()
    assert capture.trouble is not None
    assert capture.text is None
    assert os.listdir(tmp_path / "elsewhere") == []
