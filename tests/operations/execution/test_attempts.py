"""A log says what counts, what is unknown and how it ends; it is cut only where an append was interrupted."""

import os

import pytest

from operations.execution.attempts import AttemptsLog, AttemptsLogDamaged, RunIsLive
from storage.attempts import AttemptsFollower, read_attempts
from storage.schema.evidence import EvidenceRecord, Execution


def started(n):
    return {"kind": "started", "record_id": f"b.{n}", "n": n, "at": "2026-01-01T00:00:00+00:00"}


def finished(n, status="completed", output="text"):
    execution = Execution(
        status=status,
        exit_code=0,
        signal=None,
        end="exited",
        error=None,
        started_at="2026-01-01T00:00:00Z",
        ended_at="2026-01-01T00:00:01Z",
        duration_seconds=1.0,
        leftovers_killed=0,
        stdout_bytes=4,
        stderr_bytes=0,
        stdout_truncated=False,
        stderr_truncated=False,
    )
    record = EvidenceRecord(
        id=f"b.{n}",
        n=n,
        case_id="c",
        case_fingerprint="f",
        repeat=1,
        output=output,
        output_status="value",
        execution=execution,
    )
    return {"kind": "finished", "record": record.model_dump(mode="json")}


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "attempts.log")


@pytest.fixture
def work(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    return str(folder)


def write(path, work, *bodies):
    log = AttemptsLog(path, work)
    log.append(bodies)
    log.close()


def append(path, data):
    with open(path, "ab") as file:
        file.write(data)


def test_a_log_that_does_not_exist_says_nothing(path):
    attempts = read_attempts(path)
    assert (list(attempts.records()), dict(attempts.counts), attempts.ended) == ([], {}, None)


def test_a_log_tells_what_counts_from_what_is_unknown(path, work):
    write(path, work, started(0), started(1), finished(1, "agent_error"), started(2), finished(0))
    attempts = read_attempts(path)
    assert [record.id for record in attempts.records()] == ["b.1", "b.0"]
    assert attempts.finished == {"b.0", "b.1"}
    assert list(attempts.unfinished) == ["b.2"]
    assert dict(attempts.counts) == {"agent_error": 1, "completed": 1}
    assert attempts.ended is None
    assert attempts.tail.state == "clean"


def test_an_end_is_the_last_supervisors(path, work):
    write(path, work, started(0), {"kind": "ended", "reason": "stopped"})
    assert read_attempts(path).ended == "stopped"
    write(path, work, started(1))
    assert read_attempts(path).ended is None


def test_every_torn_end_is_cut_and_kept_and_what_was_confirmed_stays(path, work):
    write(path, work, started(0), finished(0))
    with open(path, "rb") as file:
        whole = file.read()
    os.unlink(path)
    write(path, work, started(0), finished(0), finished(1))
    with open(path, "rb") as file:
        longer = file.read()
    for torn in [*(longer[:cut] for cut in range(len(whole) + 1, len(longer), 97)), whole + b"\0" * 40]:
        with open(path, "wb") as file:
            file.write(torn)
        assert read_attempts(path).tail.state == "torn"
        write(path, work, finished(2))
        attempts = read_attempts(path)
        assert attempts.tail.state == "clean"
        assert attempts.finished == {"b.0", "b.2"}
        with open(os.path.join(work, f"attempts.torn-{len(whole)}"), "rb") as file:
            assert whole + file.read() == torn


@pytest.mark.parametrize("position", ["first", "last"])
def test_a_whole_frame_that_is_wrong_is_damage_and_nothing_is_cut(path, work, position):
    write(path, work, started(0), started(1))
    with open(path, "rb") as file:
        data = bytearray(file.read())
    at = 30 if position == "first" else len(data) - 10
    data[at] ^= 1
    with open(path, "wb") as file:
        file.write(data)
    with pytest.raises(AttemptsLogDamaged) as raised:
        AttemptsLog(path, work)
    assert raised.value.offset == (0 if position == "first" else len(data) // 2)
    with pytest.raises(AttemptsLogDamaged):  # the first did not stay open as its writer
        AttemptsLog(path, work)
    with open(path, "rb") as file:
        assert file.read() == data


def test_a_frame_in_the_middle_that_ends_in_a_zero_is_damage_and_not_torn(path, work):
    write(path, work, started(0))
    size = os.path.getsize(path)
    write(path, work, started(1))
    with open(path, "r+b") as file:
        file.seek(size - 1)
        file.write(b"\0")
    assert read_attempts(path).tail.state == "damaged"


def test_a_log_has_one_writer(path, work):
    log = AttemptsLog(path, work)
    with pytest.raises(RunIsLive):
        AttemptsLog(path, work)
    log.close()
    AttemptsLog(path, work).close()


def test_a_follower_sees_each_frame_once_and_waits_for_one_that_is_being_written(path, work):
    follower = AttemptsFollower(path)
    assert dict(follower.update().counts) == {}
    log = AttemptsLog(path, work)
    log.append([started(0), finished(0)])
    assert dict(follower.update().counts) == {"completed": 1}
    assert dict(follower.update().counts) == {"completed": 1}
    log.append([started(1)])
    log.close()
    with open(path, "rb") as file:
        data = file.read()
    write(path, work, finished(1, "timeout"))
    with open(path, "rb") as file:
        after = file.read()
    os.truncate(path, len(data) + 50)
    seen = follower.update()
    assert (dict(seen.counts), seen.tail.state, list(seen.unfinished)) == ({"completed": 1}, "torn", ["b.1"])
    append(path, after[len(data) + 50 :])
    seen = follower.update()
    assert (dict(seen.counts), seen.tail.state, list(seen.unfinished)) == ({"completed": 1, "timeout": 1}, "clean", [])
