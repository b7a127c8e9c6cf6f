"""Where the tests keep their files: in memory where there is room, since they flush thousands of small stores.

TMPDIR, or ATK_TEST_DISK=1, keeps them on the disk.
"""

import os
import shutil
import tempfile

from hypothesis import settings

MEMORY = "/dev/shm"
ROOM = 4 << 30
"""Bytes that must be free."""


def pytest_configure():
    _keep_in_memory()
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
