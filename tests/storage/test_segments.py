"""The journal is cut into segments, each opening with the state before it; none is lost, whatever ends the process."""

import os
import shutil
import tracemalloc

import pytest
import zstandard

from operations.verification import verify
from storage import frames, segments
from storage.files import StoreDamaged
from storage.frames import ORIGIN, Frame, encode, scan
from storage.journal import FOLDER, Journal, segment_path
from storage.lock import exclusive
from storage.projection import dump
from storage.transaction import Replayed
from tests.support import toys
from tests.support.killing import Cut, Killer
from tests.support.projects import bare
from tests.support.toys import reopened


@pytest.fixture
def short(monkeypatch):
    """Segments of a few records."""
    monkeypatch.setattr(segments, "LEAST", 1)
    monkeypatch.setattr(segments, "TIMES_CHECKPOINT", 2)


@pytest.fixture
def grown(short, tmp_path):  # noqa: ARG001 - it shortens
    """A project whose journal has several segments, with every kind of thing that a state holds."""
    toys.use_toy_effects(monkey := pytest.MonkeyPatch())
    project = bare(str(tmp_path / "grown"))
    toy = os.path.join(project.root, "toy.txt")
    toys.write(toy, "0")
    pending = toys.announce(project, toy, "0", "1", "announced")
    toys.place(project, b"one", "placed")
    for n in range(60):
        toys.put(project, f"judger-{n}", f"request-{n}")
    pending.carry_out()
    for n in range(60, 80):
        toys.put(project, f"judger-{n % 7}", version=str(n))
    yield project
    monkey.undo()


def newest(project):
    return Journal(project.store).current()


def test_state_is_the_same_in_every_process_however_many_segments_there_are(grown):
    assert newest(grown) >= 3
    assert dump(reopened(grown).state()) == dump(grown.state())
    numbers = [body["n"] for body in reopened(grown).journal_records()]
    assert numbers == list(range(len(numbers)))
    assert verify(reopened(grown)).findings == []
    assert verify(reopened(grown)).checked["checkpoints"] == newest(grown) - 1


def test_objects_are_listed_in_the_order_in_which_they_were_first_recorded(grown):
    """By it the newest Validation is told, and an id sorts by its letters: `judger-10` before `judger-9`."""
    first_recorded = [f"judger-{n}" for n in range(60)]
    for project in (grown, reopened(grown)):
        assert [name for name in toys.names(project) if name.startswith("judger-")] == first_recorded


def test_older_segments_are_packed_and_none_is_dropped(grown):
    names = grown.store.names(FOLDER)
    last = newest(grown)
    assert names == [*(f"{n:06d}.log.zst" for n in range(1, last)), f"{last:06d}.log"]


def test_segment_that_is_packed_while_it_is_looked_for_is_read(grown, monkeypatch):
    whole = [segment.sha256 for segment in segments.segments(grown.store)]
    path, opened = segment_path(1), []
    packed = zstandard.ZstdDecompressor().decompress(grown.store.read(f"{path}.zst"))
    grown.store.write_new(path, [packed])  # as one that was killed before it took the plain one away
    other, real = reopened(grown), os.open

    def packing(name, *given, **options):
        if name == os.path.basename(path) and not opened:
            opened.append(name)
            segments.tidy(other.store)
        return real(name, *given, **options)

    monkeypatch.setattr(os, "open", packing)
    assert [segment.sha256 for segment in segments.segments(grown.store)] == whole
    assert not grown.store.exists(path)


def test_request_of_an_older_segment_still_has_its_one_result(grown):
    again = reopened(grown)
    before = again.state().position
    with pytest.raises(Replayed):
        toys.place(again, b"one", "placed")
    assert again.state().position == before


@pytest.mark.usefixtures("short")
def test_process_that_stood_in_an_older_segment_goes_on(tmp_path):
    one = bare(str(tmp_path / "shared"))
    toys.put(one, "first")
    other = reopened(one)
    for n in range(80):
        toys.put(other, f"judger-{n % 9}", version=str(n))
    assert newest(one) > 1
    toys.put(one, "last")
    assert dump(one.state()) == dump(other.state())


@pytest.mark.usefixtures("short")
def test_process_that_finds_a_new_segment_flushes_its_name_before_it_builds_on_it(tmp_path, monkeypatch):
    """Who began it may have been killed between the two."""
    one = bare(str(tmp_path / "shared"))
    toys.put(one, "first")
    other = reopened(one)
    while newest(one) == 1:
        toys.put(other, "again", version=str(other.state().position.number))
    flushed, real = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (flushed.append(os.readlink(f"/proc/self/fd/{fd}")), real(fd)))
    toys.put(one, "last")
    assert one.store.full(FOLDER) in flushed[: flushed.index(Journal(one.store).path)]


def test_holder_whose_lock_was_taken_away_begins_no_segment(tmp_path):
    project = bare(str(tmp_path / "project"))
    with exclusive(project.store, "x", "now") as held:
        state = project.recovered(held)
        os.unlink(project.store.full("lock"))
        toys.put(reopened(project), "others")
        with pytest.raises(StoreDamaged, match="lock was taken away or replaced"):
            segments.rotate(project, state, held, "now")
    assert (newest(project), toys.names(reopened(project))) == (1, ["others"])


def test_journal_grows_only_in_proportion_to_its_records(monkeypatch, tmp_path):
    monkeypatch.setattr(segments, "LEAST", 4096)
    project = bare(str(tmp_path / "long"))
    for n in range(300):
        toys.put(project, f"judger-{n}")
    sizes = [(one.frames[0], one.frames[-1].end) for one in segments.segments(project.store)]
    checkpoints = sum(frame.end - frame.start for frame, _ in sizes)
    records = sum(end for _, end in sizes) - checkpoints
    assert len(sizes) > 2
    assert checkpoints < records


@pytest.mark.usefixtures("short")
def test_state_that_is_too_large_for_a_checkpoint_holds_no_change_up(monkeypatch, tmp_path):
    monkeypatch.setattr(frames, "MAX_BODY", 8192)
    project = bare(str(tmp_path / "large"))
    for n in range(60):
        toys.put(project, f"judger-{n}")
    toys.put(reopened(project), "another")
    assert newest(project) >= 2
    assert len(dump(reopened(project).state())["objects"]["judger"]) == 61
    assert verify(reopened(project)).findings == []


@pytest.mark.parametrize("torn", [False, True])
def test_process_that_ends_at_any_call_of_a_rotation_loses_nothing(monkeypatch, tmp_path, torn):
    original = bare(str(tmp_path / "original"))
    for n in range(12):
        toys.put(original, f"judger-{n}")
    monkeypatch.setattr(segments, "LEAST", 1)
    monkeypatch.setattr(segments, "TIMES_CHECKPOINT", 0)
    points = 0
    while True:
        root = str(tmp_path / f"copy-{points}")
        shutil.copytree(original.root, root)
        project = reopened(type("There", (), {"root": root, "store": type("S", (), {"path": f"{root}/.atk"})})())
        killer = Killer(points + 1, torn=torn)
        acknowledged = False
        with killer:
            try:
                toys.put(project, "killed", "killed")
                acknowledged = True
            except Cut:
                pass
        after = reopened(project)
        known = set(after.state().objects["judger"])
        assert {f"judger-{n}" for n in range(12)} <= known
        assert "killed" in known or not acknowledged
        toys.put(after, "next")
        assert verify(after).findings == []
        assert {"next", *known} == set(after.state().objects["judger"])
        assert not [name for name in after.store.names(FOLDER) if name.endswith(".new")]
        points += 1
        if not killer.dead:
            break
    assert points > 10


@pytest.mark.parametrize("which", ["packed", "checkpoint"])
def test_one_differing_bit_in_any_segment_is_named(grown, which):
    name = f"{segment_path(1)}.zst" if which == "packed" else segment_path(newest(grown))
    full = grown.store.full(name)
    data = bytearray(toys.read(full))
    data[40] ^= 1
    toys.overwrite(full, bytes(data))
    assert name in {finding.path for finding in verify(reopened(grown)).findings}


def test_missing_segment_is_named(grown):
    os.remove(grown.store.full(f"{segment_path(2)}.zst"))
    assert segment_path(2) in {finding.path for finding in verify(reopened(grown)).findings}


def test_checkpoint_that_says_another_state_is_found_out(grown):
    path = segment_path(newest(grown))
    prev, out = None, []
    for found in scan(grown.store.read(path), prev=None):
        if isinstance(found, Frame):
            body = dict(found.body)
            if body["kind"] == "checkpoint":
                body["state"]["objects"]["judger"]["judger-1"]["version"] = "forged"
            frame, digest = encode({**body, "prev": prev or body["prev"]})
            prev = digest
            out.append(frame)
    assert prev != ORIGIN
    grown.store.replace(path, b"".join(out))
    problems = [str(finding) for finding in verify(reopened(grown)).findings]
    assert any("begins with another state" in problem for problem in problems), problems


def test_verifying_holds_a_segment_or_two_at_a_time_and_never_the_journal(monkeypatch, tmp_path):
    monkeypatch.setattr(segments, "LEAST", 1 << 18)
    project = bare(str(tmp_path / "long"))
    for n in range(60):
        toys.put(project, "judger-1", version=f"{n} " * 15_000)
    longest = max(end_of(segment) for segment in segments.segments(project.store))
    assert newest(project) > 8

    tracemalloc.start()
    report = verify(reopened(project))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert (report.findings, report.checked["journal records"]) == ([], len(list(project.journal_records())))
    assert peak < 5 * longest


def end_of(segment):
    return segment.frames[-1].end
