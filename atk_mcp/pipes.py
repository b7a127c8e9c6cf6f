"""Takes stdin and stdout for the protocol, before anything else can read from them or print to them."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Pipes:
    """Private descriptors of the wire."""

    incoming: int
    outgoing: int


def claim() -> Pipes:
    """Returns the wire. From now on a read from stdin finds nothing and a print goes to stderr."""
    pipes = Pipes(os.dup(0), os.dup(1))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return pipes
