"""A store as one file: it comes back byte for byte, and whatever is wrong with the file, nothing is unpacked."""

import errno
import io
import json
import os
import tarfile

import pytest
import zstandard

from operations.verification import verify
from storage import carrying
from storage.project import Project
from tests.operations.catalog.stages import tree_of
from tests.support.projects import bare, call_of


@pytest.fixture
def project(tmp_path):
    made = bare(tmp_path / "one")
    made.store.make_folders("reports/round-1-aaaa")
    made.store.replace("reports/round-1-aaaa/report.html", b"made again when asked for")
    return made


@pytest.fixture
def packed(project, tmp_path):
    path = str(tmp_path / "project.atk")
    carrying.export(project, call_of("export"), path)
    return path


@pytest.fixture
def elsewhere(tmp_path):
    root = tmp_path / "two"
    root.mkdir()
    return str(root)


def members_of(path):
    with open(path, "rb") as file:
        plain = zstandard.ZstdDecompressor().stream_reader(file).read()
    with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
        return [(m, tar.extractfile(m).read() if m.isreg() else b"") for m in tar]


def write(path, members):
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for member, data in members:
            member.size = len(data) if member.isreg() else 0
            tar.addfile(member, io.BytesIO(data))
    with open(path, "wb") as file:
        file.write(zstandard.ZstdCompressor().compress(plain.getvalue()))


def with_manifest(members, change):
    manifest = json.loads(members[0][1])
    change(manifest)
    return [(members[0][0], json.dumps(manifest).encode()), *members[1:]]


def test_a_store_comes_back_byte_for_byte_and_verifies_elsewhere(project, packed, elsewhere):
    carried = carrying.bring(packed, elsewhere)
    left_out = ("lock", "owners", "work", "reports")
    here, there = (tree_of(os.path.join(root, ".atk"), skip=left_out) for root in (project.root, elsewhere))
    assert {k: v for k, v in here.items() if k != "lock"} == {k: v for k, v in there.items() if k != "lock"} | {
        k: None for k, v in here.items() if v is None
    }
    assert carried.journal_record == project.state().position.number
    assert verify(Project.open(elsewhere)).findings == []
    assert os.stat(os.path.join(elsewhere, ".atk")).st_mode & 0o777 == 0o700


def test_an_export_is_for_its_owner_alone_and_the_same_store_gives_the_same_bytes(project, packed, tmp_path):
    again = str(tmp_path / "again.atk")
    carrying.export(project, call_of("export"), again)
    assert os.stat(packed).st_mode & 0o777 == 0o600
    with open(packed, "rb") as one, open(again, "rb") as two:
        assert one.read() == two.read()


def test_nothing_is_written_over(project, packed, tmp_path):
    before = os.stat(packed)
    with pytest.raises(carrying.ExportExists):
        carrying.export(project, call_of("export"), packed)
    os.symlink("/nowhere", tmp_path / "link")
    with pytest.raises(carrying.ExportExists):
        carrying.export(project, call_of("export"), str(tmp_path / "link"))
    with pytest.raises(carrying.ExportInside):
        carrying.export(project, call_of("export"), os.path.join(project.root, ".atk", "evidence", "mine.atk"))
    with pytest.raises(carrying.ProjectInPlace):
        carrying.bring(packed, project.root)
    assert os.stat(packed).st_mtime_ns == before.st_mtime_ns
    assert sorted(os.listdir(tmp_path)) == ["link", "one", "project.atk"]


def renamed(name):
    def change(members):
        member = members[-1][0]
        member.name = name
        return members

    return change


def linked(members):
    member = members[-1][0]
    member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
    return members


def naming(name):
    def change(manifest):
        manifest["files"][name] = manifest["files"].pop(next(iter(manifest["files"])))

    return lambda members: with_manifest(members, change)


def twice_a_file(manifest):
    manifest["files"]["mask.key/below"] = manifest["files"]["mask.key"]


def huge_header():
    member = tarfile.TarInfo(".atk/x")
    member.pax_headers = {"comment": "x" * (2 << 20)}
    return member, b""


BROKEN = {
    "a byte": lambda m: [*m[:-1], (m[-1][0], b"x" + m[-1][1][1:])],
    "a byte more": lambda m: [*m[:-1], (m[-1][0], m[-1][1] + b"x")],
    "a file less": lambda m: m[:-1],
    "a file more": lambda m: [*m, (tarfile.TarInfo(".atk/more"), b"x")],
    "a file twice": lambda m: [*m, m[-1]],
    "a path that leads out": renamed("../../escaped"),
    "a path from the root": renamed("/tmp/escaped"),
    "a link": linked,
    "a manifest that leads out": naming("../escaped"),
    "a manifest with an empty name": naming(""),
    "a manifest with a NUL": naming("a\0b"),
    "a manifest of work in progress": naming("work/run"),
    "a manifest that acts on a terminal": naming("a\x1b[2J"),
    "a manifest that no disk takes": naming("w" * 300),
    "a manifest deeper than any store": naming("d/" * 20 + "x"),
    "a manifest in which a file is a folder": lambda m: with_manifest(m, twice_a_file),
    "a number that is none": lambda m: with_manifest(m, lambda x: x.update(journal_record=float("inf"))),
    "another journal record": lambda m: with_manifest(m, lambda x: x.update(journal_record=7)),
    "another project": lambda m: with_manifest(m, lambda x: x.update(project_id="project-1-zzzz")),
    "files that are no store": lambda m: with_manifest(m[:1], lambda x: x.update(files={})),
    "a header that fills the memory": lambda m: [*m, huge_header()],
    "no manifest": lambda m: m[1:],
    "a newer format": lambda m: with_manifest(m, lambda x: x.update(format=2)),
    "a manifest of other types": lambda m: with_manifest(m, lambda x: x.update(files=[1])),
    "a manifest without a project": lambda m: with_manifest(m, lambda x: x.pop("project_id")),
    "a manifest that is no JSON": lambda m: [(m[0][0], b"{"), *m[1:]],
    "a manifest that is deep": lambda m: [(m[0][0], b"[" * 100_000), *m[1:]],
    "nothing": lambda _: [],
}


@pytest.mark.parametrize("change", BROKEN.values(), ids=BROKEN)
def test_a_file_that_is_not_what_was_written_is_refused_and_nothing_is_unpacked(packed, elsewhere, change):
    write(packed, change(members_of(packed)))
    with pytest.raises(carrying.ExportUnusable):
        carrying.bring(packed, elsewhere)
    assert os.listdir(elsewhere) == []


@pytest.mark.parametrize("share", [0, 0.1, 0.5, 0.9, 0.999])
def test_a_file_that_was_cut_off_is_refused(packed, elsewhere, share):
    os.truncate(packed, int(os.path.getsize(packed) * share))
    with pytest.raises(carrying.ExportUnusable):
        carrying.bring(packed, elsewhere)
    assert os.listdir(elsewhere) == []


def test_what_a_killed_import_left_is_taken_away_by_the_next(packed, elsewhere):
    os.makedirs(os.path.join(elsewhere, ".atk.new-import", "journal"))
    carrying.bring(packed, elsewhere)
    assert os.listdir(elsewhere) == [".atk"]


def test_a_drive_without_second_names_takes_an_export(project, tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    path = str(tmp_path / "stick.atk")
    carrying.export(project, call_of("export"), path)
    with pytest.raises(carrying.ExportExists):
        carrying.export(project, call_of("export"), path)
    assert sorted(os.listdir(tmp_path)) == ["one", "stick.atk"]


def test_what_is_no_file_is_refused(elsewhere, tmp_path):
    (tmp_path / "text").write_text("hello")
    with pytest.raises(carrying.ExportUnusable):
        carrying.bring(str(tmp_path / "text"), elsewhere)
    with pytest.raises(carrying.ExportUnusable, match="no regular file"):
        carrying.bring("/dev/zero", elsewhere)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(carrying.ExportUnusable, match="no regular file"):
        carrying.bring(str(tmp_path / "pipe"), elsewhere)
    with pytest.raises(FileNotFoundError):
        carrying.bring(str(tmp_path / "none"), elsewhere)
