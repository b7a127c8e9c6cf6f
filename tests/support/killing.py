"""Ends a process, as seen from its own code, at any of its file-changing calls."""

import os
from unittest import mock

CALLS = ("open", "write", "pwrite", "fsync", "rename", "mkdir", "rmdir", "unlink", "ftruncate")


class Cut(BaseException):
    """The process ends at this call."""


class Killer:
    """Ends the process at the `at`-th file-changing call; a write stores half of its bytes first when `torn`."""

    def __init__(self, at, *, torn):
        self.left = at
        self.torn = torn
        self.dead = False
        self.patches = [mock.patch.object(os, name, self.wrapped(name, getattr(os, name))) for name in CALLS]

    def wrapped(self, name, real):
        def call(*given, **options):
            if self.dead:  # a process that has ended does nothing any more, whatever its handlers would do
                raise Cut
            if name == "open" and not given[1] & os.O_CREAT:
                return real(*given, **options)
            self.left -= 1
            if self.left:
                return real(*given, **options)
            self.dead = True
            if self.torn and name == "write":
                real(given[0], bytes(given[1])[: len(given[1]) // 2])
            raise Cut

        return call

    def __enter__(self):
        for patch in self.patches:
            patch.start()

    def __exit__(self, *_):
        for patch in self.patches:
            patch.stop()
