"""Transactions: published whole or not at all, repeated once, finished or undone when their process is gone."""

from __future__ import annotations

import errno
import itertools
import os

import pytest

from operations.invocation import invoke
from operations.registry import all_operations
from operations.verification import verify
from storage import owners, views
from storage.errors import AtkError
from storage.files import StoreDamaged
from storage.owners import Owner
from storage.project import Project, StorageFailed
from storage.schema.assessments import Judger
from storage.transaction import Replayed, RequestIdReused, ResourceBusy
from tests.support import toys
from tests.support.projects import bare, call_of
from tests.support.rounds import Answered
from tests.support.toys import announce, failing_at, judger, names, place, put, reopened, text


@pytest.fixture
def project(tmp_path):
    return bare(tmp_path)


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A file outside the store that effects change."""
    toys.use_toy_effects(monkeypatch)
    path = str(tmp_path / "toy.txt")
    toys.write(path, "old")
    return path


# ---- publishing -------------------------------------------------------------------------------------------------


def test_a_handler_that_refuses_has_changed_nothing(project):
    before = toys.tree(project.store.path)

    def refused():
        with project.transaction(call_of()) as tx:
            tx.put(judger("a"))
            raise KeyError

    with pytest.raises(KeyError):
        refused()
    after = toys.tree(project.store.path)
    changed = {path for path in {*before, *after} if before.get(path) != after.get(path)}
    assert changed <= {"lock", "project.json"}


def test_a_placed_folder_that_no_record_names_is_taken_away(project):
    def refused():
        with project.staging("datasets") as staging:
            staging.write("cases.jsonl", [b"{}"])
            with project.transaction(call_of()) as tx:
                tx.place(staging, "datasets/dataset-2-test")
                raise KeyError

    with pytest.raises(KeyError):
        refused()
    assert project.store.names("datasets") == []


def test_placing_never_takes_away_what_was_there(project):
    path = place(project, b"{}")
    with project.staging("datasets") as staging:
        staging.write("cases.jsonl", [b"other"])
        with pytest.raises(FileExistsError), project.transaction(call_of()) as tx:
            tx.place(staging, os.path.dirname(path))
    assert project.store.read(path) == b"{}"


def test_a_staged_file_is_flushed_with_its_folder_before_it_is_placed(project, monkeypatch):
    flushed, real = [], os.fsync

    def fsync(fd):
        flushed.append(os.path.relpath(os.readlink(f"/proc/self/fd/{fd}"), project.store.path))
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    place(project, b"{}")
    folder = next(path for path in flushed if path.endswith("cases.jsonl")).rpartition("/")[0]
    wanted = [f"{folder}/cases.jsonl", folder, "datasets", toys.SEGMENT]
    steps = flushed[flushed.index(wanted[0]) :]
    assert [path for path in steps if path in wanted[:3]] == wanted[:3]
    assert steps[-1] == toys.SEGMENT


def test_ids_carry_the_record_that_first_names_them(project):
    with project.transaction(call_of()) as tx:
        first, second = tx.new_id("round"), tx.new_id("round")
    assert first.startswith("round-2-")
    assert first != second


def test_what_is_put_is_masked_with_the_projects_own_keys_in_every_process(tmp_path):
    made = bare(tmp_path, redact_keys=("pet",))
    again = reopened(made)
    assert again.masker.value({"pet": "rex-the-dog"}) != {"pet": "rex-the-dog"}
    secret = judger("a").model_copy(update={"settings": {"pet": "rex-the-dog"}})
    with again.transaction(call_of(pet="rex-the-dog")) as tx:
        tx.put(secret)
        tx.commit(Answered())
    assert b"rex-the-dog" not in toys.read(toys.journal(made))


# ---- request ids ------------------------------------------------------------------------------------------------


def test_a_repeated_request_is_answered_and_not_done_again(project):
    put(project, "a", request_id="r")
    with pytest.raises(Replayed) as found:
        put(project, "a", request_id="r")
    assert (found.value.response["message"], found.value.response["journal_record"]) == ("put a", 2)
    assert project.state().position.number == 2


def test_a_request_id_for_something_else_is_refused(project):
    put(project, "a", request_id="r")
    with pytest.raises(RequestIdReused, match="'r' was used in journal record 2"):
        put(project, "b", request_id="r")
    assert names(project) == ["a"]


def test_calls_without_a_request_id_are_done_each_time(project):
    put(project, "a")
    put(project, "a")
    assert project.state().position.number == 3


def test_a_request_whose_effect_is_still_being_made_is_busy(project, toy):
    pending = announce(project, toy, "old", "new", request_id="r")
    with pytest.raises(ResourceBusy):
        announce(reopened(project), toy, "old", "new", request_id="r")
    with pytest.raises(ResourceBusy):
        put(reopened(project), "a", request_id="r")
    pending.carry_out()
    with pytest.raises(Replayed):
        announce(reopened(project), toy, "old", "new", request_id="r")


# ---- effects ----------------------------------------------------------------------------------------------------


def test_an_effect_is_made_and_recorded_with_what_it_was_announced_with(project, toy):
    answer = announce(project, toy, "old", "new").carry_out()
    assert (text(toy), names(project), answer.journal_record) == ("new", ["effect-2"], 3)
    assert project.state().intents == {}
    assert project.store.names("owners") == []


def test_an_announced_effect_is_not_yet_recorded_as_done(project, toy):
    pending = announce(project, toy, "old", "new")
    assert names(reopened(project)) == []
    pending.carry_out()


def test_a_living_owners_effect_is_left_alone_and_its_claim_is_busy(project, toy):
    pending = announce(project, toy, "old", "new")
    other = reopened(project)
    put(other, "a")
    assert text(toy) == "old"
    with pytest.raises(ResourceBusy, match="toy is in use by announce"):
        announce(other, toy, "old", "newer")
    pending.carry_out()


@pytest.mark.parametrize("begun", [False, True])
def test_an_orphaned_effect_is_finished(project, toy, begun):
    announce(project, toy, "old", "new", request_id="r").owner.release()
    if begun:
        toys.write(toy, "new")
    other = reopened(project)
    put(other, "a")
    assert (text(toy), names(other), other.unresolved) == ("new", ["effect-2", "a"], [])
    with pytest.raises(Replayed):
        announce(other, toy, "old", "new", request_id="r")


def test_an_orphaned_effect_whose_target_moved_on_untouched_is_undone(project, toy):
    announce(project, toy, "old", "new", request_id="r").owner.release()
    toys.write(toy, "the user's")
    other = reopened(project)
    put(other, "a")
    assert (text(toy), names(other)) == ("the user's", ["a"])
    assert "undone" in [record["kind"] for record in other.journal_records()]
    announce(other, toy, "the user's", "new", request_id="r2").carry_out()
    assert text(toy) == "new"


def test_an_effect_begun_on_what_then_changed_stays_open_and_is_named(project, toy, tmp_path):
    second = str(tmp_path / "second.txt")
    toys.write(second, "old")
    steps = [{"do": "toy", "path": path, "before": "old", "after": "new"} for path in (toy, second)]
    with project.transaction(call_of("announce")) as tx:
        pending = tx.intend(steps, Answered(), claims=["toy"])
    pending.owner.release()
    toys.write(toy, "new")
    toys.write(second, "the user's")
    other = reopened(project)
    put(other, "a")
    (left,) = other.unresolved
    assert (left.number, left.operation, type(left.error)) == (2, "announce", toys.NeitherState)
    assert text(second) == "the user's"
    with pytest.raises(ResourceBusy):
        announce(other, toy, "new", "newer")
    toys.write(second, "old")
    put(other, "b")
    assert (text(second), other.unresolved) == ("new", [])


def test_a_refused_effect_that_touched_nothing_is_undone_at_once(project, toy):
    pending = announce(project, toy, "old", "new")
    toys.write(toy, "the user's")
    with pytest.raises(toys.NeitherState):
        pending.carry_out()
    assert project.state().intents == {}
    assert names(project) == []


def test_recovering_twice_records_nothing_new(project, toy):
    announce(project, toy, "old", "new").owner.release()
    state = reopened(project).recover(call_of("recover"))
    assert reopened(project).recover(call_of("recover")).position == state.position


def test_an_orphaned_effect_keeps_its_placed_files_until_it_is_settled(project, toy):
    step = {"do": "toy", "path": toy, "before": "old", "after": "new"}
    with project.staging("validations") as staging:
        staging.write("comparison.csv", [b"x"])
        with project.transaction(call_of("announce")) as tx:
            tx.place(staging, "validations/validation-2-test")
            pending = tx.intend([step], Answered(), claims=["toy"])
    reopened(project).recover(call_of("recover"))
    assert project.store.names("validations") == ["validation-2-test"]
    pending.carry_out()
    assert "validations/validation-2-test/comparison.csv" in project.state().files


# ---- what a crash leaves ----------------------------------------------------------------------------------------


def test_what_nobody_owns_is_taken_away_and_what_somebody_does_stays(project):
    kept = place(project, b"{}")
    dead = Owner(project.store)
    dead.release()
    for path in (f"datasets/.staging-{dead.nonce}", "datasets/dataset-3-gone", f"work/scratch-{dead.nonce}", "work/x"):
        project.store.make_folders(path)
        project.store.write_new(f"{path}/file", [b"x"])
    with project.staging("datasets") as staging:
        staging.write("cases.jsonl", [b"{}"])
        reopened(project).recover(call_of("recover"))
        assert project.store.names("datasets") == sorted([staging.path.split("/")[1], kept.split("/")[1]])
        assert project.store.names("owners") == [staging.owner.nonce]
    assert project.store.names("work") == []
    assert project.store.names("datasets") == [kept.split("/")[1]]
    assert project.store.names("owners") == []


@pytest.mark.parametrize("path", ["work/scratch-", "work/scratch-..", "datasets/.staging-", "datasets/.staging-."])
def test_a_folder_that_is_named_like_work_of_an_owner_that_cannot_be_is_taken_away(project, path):
    """An agent can leave one under `work/`, and it would hold up every later call."""
    os.makedirs(os.path.join(project.store.path, path))
    again = reopened(project)
    put(again, "a")
    assert (names(again), again.store.names(path.partition("/")[0])) == (["a"], [])


WITH_FILES = sorted({path.partition("/")[0] for path in views.PLACES.values() if path.endswith("/manifest.json")})


@pytest.mark.parametrize("holder", WITH_FILES)
def test_what_no_record_names_is_found_and_taken_away_wherever_records_have_files(project, holder):
    for left in (f"{holder}/.staging-0123456789abcdef", f"{holder}/thing-2-left"):
        project.store.make_folders(left)
        project.store.write_new(f"{left}/file", [b"x"])
    assert f"{holder}/thing-2-left/file" in {finding.path for finding in verify(reopened(project)).findings}
    reopened(project).recover(call_of("recover"))
    assert project.store.names(holder) == []


def test_a_staging_that_could_not_be_made_leaves_no_owner_alive(project, monkeypatch):
    with (
        failing_at(monkeypatch, ["mkdir"], 3, OSError(errno.ENOSPC, "No space left on device")),
        pytest.raises(OSError, match="No space"),
    ):
        project.staging("new")
    (nonce,) = project.store.names("owners")
    assert not owners.is_alive(project.store, nonce)


def test_holder_whose_lock_was_taken_away_writes_nothing_once_another_may_hold_the_project(project):
    other = reopened(project)
    with project.transaction(call_of("one")) as tx:
        tx.put(judger("one"))
        os.unlink(project.store.full("lock"))
        put(other, "two")
        with pytest.raises(StoreDamaged, match="lock was taken away or replaced"):
            tx.commit(Answered())
    put(project, "three")
    assert names(reopened(project)) == ["two", "three"]


def test_a_record_that_may_be_on_the_disk_keeps_what_it_names(project, monkeypatch):
    """The flush fails, and so does taking the record back: only what is on the disk can say what happened."""

    def refuse(*_):
        raise OSError(errno.EIO, "Input/output error")

    with project.staging("datasets") as staging:
        staging.write("cases.jsonl", [b"{}"])
        with project.transaction(call_of("place")) as tx:
            tx.place(staging, "datasets/dataset-2-test")
            with monkeypatch.context() as patch:
                patch.setattr(os, "fsync", refuse)
                patch.setattr(os, "ftruncate", refuse)
                with pytest.raises(OSError, match="Input/output"):
                    tx.commit(Answered())
    state = reopened(project).recover(call_of("recover"))
    assert list(state.files) == ["datasets/dataset-2-test/cases.jsonl"]
    assert project.store.read("datasets/dataset-2-test/cases.jsonl") == b"{}"


def test_a_record_that_was_taken_back_leaves_nothing_after_the_next_call(project, monkeypatch):
    with project.staging("datasets") as staging:
        staging.write("cases.jsonl", [b"{}"])
        with project.transaction(call_of("place")) as tx:
            tx.place(staging, "datasets/dataset-2-test")
            with (
                failing_at(monkeypatch, ["fsync"], 1, OSError(errno.EIO, "Input/output error")),
                pytest.raises(OSError, match="Input/output"),
            ):
                tx.commit(Answered())
    put(project, "a")
    assert names(project) == ["a"]
    assert project.store.names("datasets") == []


def test_what_is_recorded_together_is_listed_in_the_order_in_which_it_was_given(project):
    with project.transaction(call_of("many")) as tx:
        made = [tx.new_id("judger") for _ in range(50)]
        for number, judger_id in enumerate(made):
            tx.put(judger(judger_id, version=str(number)))
        tx.commit(Answered())
    assert [kept.id for kept in reopened(project).state().all(Judger)] == made
    assert len(set(made)) == 50


CALLS = ["write", "pwrite", "fsync", "rename", "mkdir", "open", "unlink", "ftruncate"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS, errno.EMFILE], ids=errno.errorcode.get)
def test_a_disk_error_at_any_call_leaves_before_or_after_and_is_worded(tmp_path, monkeypatch, number):
    """Each call meets a project of its own: in one that grows, the calls would grow with it, and have no last."""
    operation = all_operations()["store_dataset"]
    for at in itertools.count(1):
        project = bare(tmp_path / str(at))
        (tmp_path / str(at) / "cases.csv").write_text("id,input\na,hello\n")
        arguments = {"project_path": str(tmp_path / str(at)), "source": "cases.csv", "request_id": "r"}
        refused = None
        with failing_at(monkeypatch, CALLS, at, OSError(number, os.strerror(number), "some/path")) as count:
            try:
                invoke(operation, arguments)
            except AtkError as error:
                refused = error
        whole = reopened(project)
        assert whole.damage() is None
        made = int("r" in whole.state().requests)
        assert len(whole.state().objects.get("dataset", {})) == made
        if refused is None:
            assert made
        else:
            assert str(refused)
            assert not made or isinstance(refused, StorageFailed)
        whole.recover(call_of("recover"))
        assert len(project.store.names("datasets")) == made
        assert project.store.names("owners") == []
        if count[0] < at:
            break
    assert at > 20


# ---- views ------------------------------------------------------------------------------------------------------


VIEW = "judgers/a.json"


@pytest.mark.parametrize("rot", [b"", b"{", b'{"journal_record": 1}', b"\xff\xfe", b'{"journal_record": 1e999}'])
def test_a_stale_or_rotten_view_is_rebuilt(project, rot):
    put(project, "a")
    right = project.store.read(VIEW)
    toys.overwrite(project.store.full(VIEW), rot)
    reopened(project).recover(call_of("recover"))
    assert project.store.read(VIEW) == right


def test_a_missing_view_is_rebuilt_without_a_word(project):
    put(project, "a")
    os.unlink(project.store.full(VIEW))
    again = reopened(project)
    again.recover(call_of("recover"))
    assert project.store.exists(VIEW)
    assert again.edited_views == []


@pytest.mark.parametrize("said", [None, 999])
def test_a_hand_edit_is_noticed_and_not_obeyed(project, said):
    put(project, "a")
    right = project.store.read(VIEW)
    edited = right.replace(b'"version": "1"', b'"version": "9"')
    if said:
        edited = edited.replace(b'"journal_record": 2', b'"journal_record": 999')
    toys.overwrite(project.store.full(VIEW), edited)
    again = reopened(project)
    again.recover(call_of("recover"))
    assert again.edited_views == [VIEW]
    assert project.store.read(VIEW) == right
    assert again.state().objects["judger"]["a"].version == "1"


def test_a_view_that_cannot_be_written_is_a_warning_not_a_refusal(project):
    put(project, "a")
    os.unlink(project.store.full(VIEW))
    os.rmdir(project.store.full("judgers"))
    project.store.write_new("judgers", [b"a file where a folder should be"])
    answer = put(project, "a", version="2")
    assert answer.journal_record == 3
    assert "judgers/a.json could not be written" in answer.warnings[0]


def test_a_link_among_the_views_is_a_warning_after_the_commit_and_then_refused(project, tmp_path):
    put(project, "a")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    os.unlink(project.store.full(VIEW))
    os.rmdir(project.store.full("judgers"))
    os.symlink(elsewhere, project.store.full("judgers"))
    answer = put(project, "a", version="2")
    assert "is a link" in answer.warnings[0]
    assert os.listdir(elsewhere) == []
    with pytest.raises(StoreDamaged, match="is a link"):
        put(reopened(project), "b")
    assert names(Project.open(project.root)) == ["a"]
