"""What the system refuses is told with the disk that is full, and with what a person can do."""

import errno
import os
import subprocess

import pytest

from storage import refusing
from storage.project import StorageFailed

KNOWN = sorted(refusing._ADVICE)
AFTER = "Nothing was recorded as done; call again afterwards."


def of(number, *near):
    return StorageFailed.of(OSError(number, os.strerror(number)), *near)


@pytest.mark.parametrize("number", KNOWN, ids=errno.errorcode.get)
def test_every_known_error_says_what_to_do(number):
    error = of(number)
    assert str(error) == f"The system refused: {os.strerror(number)}. {error.advice} {AFTER}"
    assert error.advice.endswith(".")


def test_an_error_that_nobody_thought_of_is_a_whole_sentence_too():
    assert str(of(errno.EXDEV)) == f"The system refused: {os.strerror(errno.EXDEV)}. Put that right. {AFTER}"


def test_the_file_is_named_where_the_error_names_one(tmp_path):
    with pytest.raises(FileExistsError) as refused:
        os.mkdir(tmp_path)
    assert StorageFailed.of(refused.value).place == f" ({tmp_path})"


def test_no_disk_is_called_full_that_is_not(tmp_path):
    assert refusing.full([str(tmp_path), str(tmp_path / "missing")]) is None
    assert of(errno.ENOSPC, str(tmp_path)).place == ""


@pytest.fixture
def disk(tmp_path):
    """Mounts a small disk where that is allowed, and takes it away."""
    at = tmp_path / "disk"
    at.mkdir()

    def mount(options):
        command = ["mount", "-t", "tmpfs", "-o", options, "none", at]
        if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("no disk can be mounted here")
        return str(at)

    yield mount
    subprocess.run(["umount", at], capture_output=True, check=False)


def fill(at):
    with open(f"{at}/ballast", "wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def crowd(at):
    for number in range(40):
        os.mkdir(f"{at}/{number}")


def test_of_two_disks_the_full_one_is_named(disk, tmp_path):
    at = disk("size=64k")
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        fill(at)
    error = of(errno.ENOSPC, str(tmp_path), at)
    assert error.place == f" (on the disk of {at}, 0 KiB free)"
    assert error.advice == "Free some space on that disk."


def test_a_disk_that_is_out_of_files_is_told_from_one_that_is_out_of_space(disk):
    at = disk("size=8m,nr_inodes=20")
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        crowd(at)
    error = of(errno.ENOSPC, at)
    assert error.place == f" (on the disk of {at}, where no more files can be made)"
    assert error.advice == "Remove some files from that disk."
