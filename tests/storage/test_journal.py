"""The journal: what was acknowledged is read back, a torn tail is cut by the lock's holder only, damage is named."""

from __future__ import annotations

import json
import os

import pytest

from storage.files import StoreDamaged
from storage.frames import Frame, encode, scan
from storage.journal import NewerFormat
from storage.lock import exclusive
from storage.projection import UnknownObject
from storage.schema.assessments import Judger
from storage.transaction import Replayed
from tests.support.projects import bare, call_of
from tests.support.toys import journal, judger, names, overwrite, put, read, reopened, shown


@pytest.fixture
def project(tmp_path):
    made = bare(tmp_path)
    for name in ("a", "b", "c"):
        put(made, name, request_id=f"r-{name}")
    return made


def frames(project):
    return [found for found in scan(read(journal(project))) if isinstance(found, Frame)]


def test_what_was_put_is_there_after_reopening(project):
    assert names(reopened(project)) == ["a", "b", "c"]
    assert reopened(project).state() == project.state()


def test_the_first_record_is_a_checkpoint_that_says_the_format(project):
    first = frames(project)[0].body
    assert (first["kind"], first["n"], first["format"], first["segment_before"]) == ("checkpoint", 0, 1, None)


def test_records_are_numbered_without_a_gap(project):
    assert [frame.body["n"] for frame in frames(project)] == [0, 1, 2, 3, 4]


TORN = [b"0", b"0000001", b"00000010 00000000 {", b"\0", b"\0" * 5000, b"00000010 0000\0\0\0\0\0\0\0"]


@pytest.mark.parametrize("tail", TORN)
def test_a_torn_tail_is_no_damage_and_a_reader_leaves_it(project, tail):
    overwrite(journal(project), whole := read(journal(project)) + tail)
    again = reopened(project)
    assert names(again) == ["a", "b", "c"]
    assert again.damage() is None
    assert read(journal(project)) == whole


@pytest.mark.parametrize("tail", TORN)
def test_a_torn_tail_is_cut_by_the_next_change(project, tail):
    good = read(journal(project))
    overwrite(journal(project), good + tail)
    put(reopened(project), "d")
    assert read(journal(project)).startswith(good)
    assert names(reopened(project)) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("record", range(5))
@pytest.mark.parametrize("where", ["length", "checksum", "space", "body", "end"])
def test_a_flipped_byte_makes_the_project_read_only_and_is_named(project, record, where):
    frame = frames(project)[record]
    place = {
        "length": frame.start + 2,
        "checksum": frame.start + 12,
        "space": frame.start + 8,
        "body": frame.start + 40,
        "end": frame.end - 1,
    }[where]
    data = bytearray(read(journal(project)))
    data[place] ^= 0x01
    overwrite(journal(project), bytes(data))
    again = reopened(project)
    assert f"at byte {frame.start} " in str(again.damage())
    assert names(again) == ["a", "b", "c"][: max(record - 2, 0)]
    with pytest.raises(StoreDamaged, match=f"byte {frame.start}"):
        put(again, "d")
    with pytest.raises(StoreDamaged), exclusive(again.store, "x", "now") as held:
        again.recovered(held)
    assert read(journal(project)) == bytes(data)


def test_a_process_that_knew_the_records_before_the_damage_refuses_too(project):
    data = bytearray(read(journal(project)))
    data[-20] ^= 0x01
    overwrite(journal(project), bytes(data))
    with pytest.raises(StoreDamaged):
        put(project, "d")
    assert read(journal(project)) == bytes(data)


def rewritten(project, change):
    """Writes the journal anew with valid frames, after `change` has been at the bodies."""
    bodies = [frame.body for frame in frames(project)]
    change(bodies)
    data, prev = b"", "0" * 64
    for body in bodies:
        frame, prev = encode({**body, "prev": prev})
        data += frame
    overwrite(journal(project), data)


def test_a_newer_format_is_refused_for_reading_and_writing(project):
    rewritten(project, lambda bodies: bodies[0].update(format=2))
    before = read(journal(project))
    again = reopened(project)
    with pytest.raises(NewerFormat, match="format 2, and this ATK knows formats up to 1"):
        again.state()
    with pytest.raises(NewerFormat):
        put(again, "d")
    assert read(journal(project)) == before


@pytest.mark.parametrize(
    "change",
    [
        lambda bodies: bodies[0].update(format="one"),
        lambda bodies: bodies[3].pop("n"),
        lambda bodies: bodies[3].update(n=7),
        lambda bodies: bodies[3].update(kind="dance"),
        lambda bodies: bodies[3].pop("kind"),
        lambda bodies: bodies[3].update(objects={"judger": {"b": {"id": "b"}}}),
        lambda bodies: bodies[3].update(objects={"dragon": {}}),
        lambda bodies: bodies[3].update(kind="done", intent=1),
        lambda bodies: bodies[3].update(files={"datasets/x": {}}),
    ],
)
def test_a_record_that_says_what_no_record_says_is_damage_and_what_is_before_it_is_read(project, change):
    rewritten(project, change)
    again = reopened(project)
    assert isinstance(again.damage(), StoreDamaged)
    assert "byte" in str(again.damage()) or "format" in str(again.damage())
    assert names(again) in (["a"], [])
    with pytest.raises(StoreDamaged):
        put(again, "d")


def test_a_missing_journal_is_damage(project):
    os.unlink(journal(project))
    assert "is missing" in str(project.damage())


def test_an_empty_journal_is_damage(project):
    overwrite(journal(project), b"")
    assert "only 0 bytes" in str(reopened(project).damage())


def test_another_process_sees_what_this_one_adds(project):
    other = reopened(project)
    assert names(other) == ["a", "b", "c"]
    put(project, "d")
    assert names(other) == ["a", "b", "c", "d"]
    put(other, "e")
    assert names(project) == ["a", "b", "c", "d", "e"]


def test_a_journal_that_was_put_back_from_a_copy_is_read_anew(project):
    copy = read(journal(project))
    put(project, "d")
    overwrite(journal(project), copy)
    put(reopened(project), "e")
    assert names(project) == ["a", "b", "c", "e"]


def test_a_record_is_never_appended_that_could_not_be_read(project):
    before = read(journal(project))
    with exclusive(project.store, "x", "now") as held:
        project.recovered(held)
        with pytest.raises(StoreDamaged):
            project.append({"kind": "dance"}, held)
    assert read(journal(project)) == before
    put(project, "d")
    assert names(reopened(project)) == ["a", "b", "c", "d"]


def test_the_same_request_gets_the_recorded_answer(project):
    with pytest.raises(Replayed) as found:
        put(reopened(project), "a", request_id="r-a")
    assert found.value.response["message"] == "put a"
    assert found.value.response["journal_record"] == 2
    assert names(project) == ["a", "b", "c"]


def test_a_replay_flushes_what_a_killed_writer_may_not_have(project, monkeypatch):
    again, flushed, real = reopened(project), [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (flushed.append(os.readlink(f"/proc/self/fd/{fd}")), real(fd)))
    with pytest.raises(Replayed):
        again.check_replay(call_of("put", "r-a", name="a"))
    assert flushed == [journal(project)]


def test_an_unknown_object_is_refused_with_those_there_are(project):
    with pytest.raises(UnknownObject, match=r"no judger 'z'.*a, b, c"):
        project.state().get(Judger, "z")


def test_a_newer_version_supersedes_and_the_journal_keeps_both(project):
    put(project, "a", version="2")
    assert project.state().get(Judger, "a") == judger("a", "2")
    made = [record.get("objects", {}).get("judger", {}) for record in project.journal_records()]
    assert [judgers["a"]["version"] for judgers in made if "a" in judgers] == ["1", "2"]


def test_views_show_the_record_that_made_them(project):
    assert shown(project, "judgers/a.json")["journal_record"] == 2
    put(project, "a", version="2")
    view = shown(project, "judgers/a.json")
    assert (view["journal_record"], view["object"]["version"]) == (5, "2")
    assert json.loads(json.dumps(view)) == view
