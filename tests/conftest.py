"""What all tests need: room in memory for thousands of small stores, keys of their own, and keys that interrupt.

TMPDIR, or ATK_TEST_DISK=1, keeps them on the disk.
"""

import os
import resource
import shutil
import signal
import tempfile

from hypothesis import settings

MEMORY = "/dev/shm"
ROOM = 4 << 30
"""Bytes that must be free."""


def pytest_configure():
    _keep_in_memory()
    _hear_interrupts()
    _hold_many_files()
    # Nothing is asserted about wall clocks: one example may take a second where others use the machine.
    settings.register_profile("patient", parent=settings(), deadline=None)
    settings.load_profile("patient")
    os.environ.setdefault("ATK_KEY_HOME", tempfile.mkdtemp(prefix="atk-keys-"))  # never the keys of whoever tests


def _keep_in_memory():
    if "TMPDIR" in os.environ or os.environ.get("ATK_TEST_DISK"):
        return
    if os.path.isdir(MEMORY) and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM:
        os.environ["TMPDIR"] = MEMORY  # the processes that tests start follow
        tempfile.tempdir = None


def _hear_interrupts():
    """Undoes what `nohup` and shells do to what runs in the background: processes that tests start would inherit it."""
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


def _hold_many_files():
    """Takes as many handles as are allowed: a process keeps every project open, and tests have thousands."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65_536 if hard == resource.RLIM_INFINITY else min(hard, 65_536)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
