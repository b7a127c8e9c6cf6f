"""Makes this process look like macOS to Python: its name, no /proc, and none of the calls that only Linux has.

What is left is not macOS: the kernel, its file system and its Git are those of Linux. It shows that no module and no
step relies on what is missing there.
"""

from __future__ import annotations

PRELUDE = """
import asyncio, builtins, ctypes, fcntl, os, platform, select, signal, subprocess, sys, types, zoneinfo
platform.uname()  # these ask the real system about itself, once
sys.platform = "darwin"
sys.modules["_scproxy"] = types.SimpleNamespace(_get_proxy_settings=dict, _get_proxies=dict)
for module, names in {
    os: ("pidfd_open", "waitid", "pipe2", "fdatasync", "memfd_create", "copy_file_range", "splice", "eventfd",
         "sched_getaffinity", "posix_fallocate", "posix_fadvise", "getxattr", "P_ALL", "WNOWAIT", "O_PATH",
         "O_TMPFILE", "O_NOATIME"),
    signal: ("pidfd_send_signal",),
    select: ("epoll",),
}.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
fcntl.F_FULLFSYNC = 51
synced, really = [], fcntl.fcntl

def control(fd, command, *more):
    if command != 51:
        return really(fd, command, *more)
    synced.append(fd)
    os.fsync(fd)

fcntl.fcntl = control
def barred(real):
    def call(path=".", *more, **named):
        if isinstance(path, (str, bytes)) and os.fsdecode(path).split("/")[1:2] == ["proc"]:
            raise FileNotFoundError(2, "there is no /proc", path)
        return real(path, *more, **named)
    return call

os.listdir, os.readlink, os.open, builtins.open = map(barred, (os.listdir, os.readlink, os.open, builtins.open))
"""
"""To be run before anything of ours is imported."""
