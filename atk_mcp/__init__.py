"""The MCP server and the inspector: two faces of the same catalog."""

from __future__ import annotations

import os
from importlib.util import find_spec

_HOME = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


def _refuse_strangers() -> None:
    """Stops before code of the target project can stand in for ours.

    `operations` and `storage` are common names. A target project that has them, with its folder
    on the import path, would otherwise be imported in their place.

    Raises:
        ImportError: One of the two packages does not lie beside this one.
    """
    for name in ("operations", "storage"):
        spec = find_spec(name)
        origin = spec.origin if spec else None
        if origin is None or os.path.dirname(os.path.dirname(os.path.realpath(origin))) != _HOME:
            found = origin or (list(spec.submodule_search_locations or ()) if spec else "nowhere")
            raise ImportError(
                f"{name!r} comes from {found}, not from ATK. Start `atk` or `atk-mcp` as installed by "
                "`uv tool install`, `uvx` or `pipx`, without PYTHONPATH (or with PYTHONSAFEPATH=1)."
            )


def __getattr__(name: str) -> str:
    """Returns `__version__` from the package's metadata, read when it is asked for."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - reading metadata costs 20 ms

    try:
        return version("atk-mcp")
    except PackageNotFoundError:
        return "0+unknown"


_refuse_strangers()
