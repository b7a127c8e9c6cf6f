"""A probe is sealed from whatever its log says, whole or not, and sealing can be done again."""

import json
import os

import pytest

from storage import probes
from storage.carrying import WorkInProgress, export
from storage.frames import ORIGIN, encode
from storage.owners import Owner
from storage.schema.probes import Probe, ProbePermission
from tests.support import toys
from tests.support.projects import AT, bare, call_of
from tests.support.rounds import Answered

PERMISSION = ProbePermission(id="look", command=("look",), isolation_ref="reads", max_calls=10)


def finished(n, status="completed"):
    return {"kind": "finished", "record": {"n": n, "id": f"probe-2-test.{n}", "execution": {"status": status}}}


def started(n):
    return {"kind": "started", "record_id": f"probe-2-test.{n}", "n": n, "at": AT}


def ended(reason="all_done", *changed):
    return {"kind": "ended", "reason": reason, "changed": list(changed), "notes": []}


def frames(*bodies):
    made, prev = [], ORIGIN
    for body in bodies:
        chunk, prev = encode({**body, "prev": prev})
        made.append(chunk)
    return made


@pytest.fixture
def project(tmp_path):
    return bare(tmp_path / "project")


def opened(project, *, slots=2, leases=True):
    """Records a running probe. Returns who works on it."""
    owner = Owner(project.store)
    probe = Probe(
        id="probe-2-test",
        status="running",
        question="why?",
        scope_id="project-1-test",
        permission=PERMISSION,
        slots=slots,
        owner=owner.nonce,
        leases_worktree=leases,
        started_at=AT,
    )
    with project.transaction(call_of("probe")) as tx, project.staging("evidence") as staging:
        tx.put(probe)
        staging.write(probes.SLOTS, [b"{}\n"])
        tx.place(staging, "evidence/probe-2-test")
        tx.commit(Answered())
    return owner


def sealed(project, owner, data):
    """Gives the probe a log, lets its owner go, and returns the probe as the next change finds it."""
    if data is not None:
        project.store.write_new(f"evidence/probe-2-test/{probes.LOG}", [data])
    owner.release()
    return project.settle(call_of("next")).get(Probe, "probe-2-test")


def test_a_probe_that_lives_is_left_alone_and_leases_the_worktree(project):
    owner = opened(project)
    state = project.settle(call_of("next"))
    assert state.get(Probe, "probe-2-test").status == "running"
    assert "probe-2-test" in state.claimed()["worktree"]
    assert probes.open_probes(state) == [state.get(Probe, "probe-2-test")]
    owner.release()


def test_a_probe_without_git_leases_nothing(project):
    owner = opened(project, leases=False)
    assert project.state().claimed() == {}
    assert sealed(project, owner, None).notes == ()


def test_a_whole_log_completes_the_probe(project):
    data = b"".join(frames(started(1), finished(1), started(2), finished(2, "timeout"), ended()))
    probe = sealed(project, opened(project), data)
    assert (probe.status, probe.end_reason, probe.charged) == ("completed", "all_done", 2)
    assert probe.counts == {"completed": 1, "timeout": 1}
    assert (probe.missing_record_ids, probe.unknown_record_ids, probe.notes) == ((), (), ())
    kept = project.store.read(f"evidence/{probe.id}/{probes.RECORDS}").splitlines()
    assert [json.loads(line)["n"] for line in kept] == [1, 2]
    state = project.state()
    for name in (probes.SLOTS, probes.LOG, probes.RECORDS):
        path = f"evidence/{probe.id}/{name}"
        assert state.files[path] == project.store.digest(path)
    assert project.store.names("owners") == []


@pytest.mark.parametrize("frames_kept", range(5))
def test_a_log_that_ends_early_keeps_what_is_confirmed_and_charges_what_began(project, frames_kept):
    whole = frames(started(1), finished(1), started(2), finished(2), ended())
    torn = whole[frames_kept][:-7]
    probe = sealed(project, opened(project), b"".join([*whole[:frames_kept], torn]))
    begun, confirmed = (frames_kept + 1) // 2, frames_kept // 2
    assert (probe.status, probe.end_reason) == ("interrupted", "server_gone")
    assert (probe.charged, sum(probe.counts.values())) == (begun, confirmed)
    assert len(probe.missing_record_ids) == 2 - confirmed
    assert "files may have changed" in probe.notes[-1]


def test_a_probe_that_never_began_its_log_is_charged_nothing(project):
    probe = sealed(project, opened(project), None)
    assert (probe.status, probe.charged, probe.unknown_record_ids) == ("interrupted", 0, ())
    assert project.store.read(f"evidence/{probe.id}/{probes.RECORDS}") == b""


def test_a_damaged_log_costs_what_stands_behind_the_damage_and_holds_nobody_up(project):
    whole = frames(started(1), finished(1), started(2), finished(2), ended())
    whole[2] = whole[2].replace(b"started", b"stopped")
    probe = sealed(project, opened(project), b"".join(whole))
    assert (probe.status, probe.counts, probe.charged) == ("interrupted", {"completed": 1}, 1)
    assert probe.notes[0] == f"The log is damaged at byte {len(whole[0] + whole[1])}; what follows was left out."


def test_changed_files_contaminate_and_are_named_up_to_a_limit(project):
    paths = [f"file-{n}" for n in range(probes.PATH_LIMIT + 3)]
    data = b"".join(frames(started(1), finished(1), started(2), finished(2), ended("all_done", *paths)))
    probe = sealed(project, opened(project), data)
    assert (probe.status, len(probe.changed_paths)) == ("contaminated", probes.PATH_LIMIT)
    assert probe.notes == ("Changed paths that are not listed: 3.",)


def test_a_stopped_probe_is_interrupted(project):
    data = b"".join(frames(started(1), finished(1, "cancelled"), ended("stopped")))
    probe = sealed(project, opened(project), data)
    assert (probe.status, probe.end_reason, probe.charged) == ("interrupted", "stopped", 1)


def test_sealing_again_replaces_an_unfinished_try(project):
    owner = opened(project)
    project.store.write_new(f"evidence/probe-2-test/{probes.RECORDS}", [b"half a li"])
    probe = sealed(project, owner, b"".join(frames(started(1), finished(1), started(2), finished(2), ended())))
    assert probe.status == "completed"
    assert project.store.digest(f"evidence/{probe.id}/{probes.RECORDS}").sha256 == probe.records_sha256


def test_log_of_a_killed_probe_is_flushed_before_its_digest_is_recorded(project, monkeypatch):
    """Its last frame may be in memory only, and a power cut would then leave a file that differs from its record."""
    flush, flushed = os.fsync, set()

    def noted(fd):
        flush(fd)
        flushed.add(os.fstat(fd).st_ino)

    owner = opened(project)
    log = f"evidence/probe-2-test/{probes.LOG}"
    project.store.make_folders("evidence/probe-2-test")
    toys.overwrite(project.store.full(log), b"".join(frames(started(1), finished(1))))
    owner.release()
    monkeypatch.setattr(os, "fsync", noted)
    project.settle(call_of("next"))
    assert os.stat(project.store.full(log)).st_ino in flushed
    assert project.state().files[log] == project.store.digest(log)


def test_store_with_an_open_probe_is_not_exported(project, tmp_path):
    owner = opened(project)
    with pytest.raises(WorkInProgress, match="probe-2-test is not over"):
        export(project, call_of("export"), str(tmp_path / "export.atk"))
    assert sealed(project, owner, None).status == "interrupted"
    assert export(project, call_of("export"), str(tmp_path / "export.atk")).journal_record == 3


def test_work_that_a_dead_probe_left_is_taken_away(project):
    owner = opened(project)
    project.store.make_folders(f"work/scratch-{owner.nonce}/1")
    assert sealed(project, owner, None).status == "interrupted"
    assert project.store.names("work") == []


def test_a_store_in_which_a_probe_cannot_be_sealed_says_so_and_goes_on(project):
    owner = opened(project)
    os.rename(project.store.full("evidence/probe-2-test"), project.store.full("evidence/elsewhere"))
    os.symlink("elsewhere", project.store.full("evidence/probe-2-test"))
    owner.release()
    state = project.settle(call_of("next"))
    assert state.get(Probe, "probe-2-test").status == "running"
    assert [(found.operation, found.number) for found in project.unresolved] == [("diagnostic_probe", 2)]
