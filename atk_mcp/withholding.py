"""A server that changes nothing offers searching without the arguments that keep what was found, and refuses those."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from atk_mcp.toolsets import Offer
from storage.errors import AtkError, NextCall


@dataclass(kw_only=True, eq=False)
class ArgumentWithheld(AtkError):
    """With this argument the call would store something, and the server was started with `--read-only`."""

    message = (
        "{operation} stores something with {arguments}, and this server was started with --read-only. Leave it out; "
        "nothing was done."
    )
    next_calls = (NextCall("{operation}", supply={"arguments": "the same without {arguments}"}),)

    operation: str
    arguments: str


def refuse_withheld(offer: Offer, operation: str, arguments: Mapping[str, Any]) -> None:
    """Refuses arguments that the offer leaves out of a tool.

    Raises:
        ArgumentWithheld: It names them.
    """
    if given := [name for name in offer.withheld.get(operation, ()) if arguments.get(name)]:
        raise ArgumentWithheld(operation=operation, arguments=" and ".join(given))
