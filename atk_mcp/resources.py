"""What is stored, as resources, for clients that show them; every fact of theirs is reached by a tool too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote

from atk_mcp import reporting

MIME = "application/json"

LISTED: tuple[dict[str, Any], ...] = (
    {
        "uri": "atk://status",
        "name": "status",
        "title": "Status",
        "description": "What is open, what is blocked, what to do next. The tool is get_status.",
        "mimeType": MIME,
    },
)

_KINDS = {
    "rounds": "A Round: its plan, candidates and decisions.",
    "batches": "A batch of evidence: what ran or was imported, and its counts.",
    "assessments": "An Assessment: verdicts by Record and dimension.",
    "validations": "A Validation: the result of a comparison with its statistics.",
    "journal": "A journal record, by its number: what one operation did.",
    "records": "Anything stored, by any id: a dataset, Case, Record, candidate, Issue, Decision and so on.",
}

_QUERY = ("field", "cursor", "project_path")
"""What a resource's URI may add: the arguments of the tool, so that what is long is read to its end."""

TEMPLATES: tuple[dict[str, Any], ...] = (
    {
        "uriTemplate": "atk://status{?project_path}",
        "name": "status-of",
        "title": "Status of a project",
        "description": "What is open, what is blocked, what to do next in another project. The tool is get_status.",
        "mimeType": MIME,
    },
    *(
        {
            "uriTemplate": f"atk://{kind}/{{id}}{{?{','.join(_QUERY)}}}",
            "name": kind,
            "title": kind.capitalize(),
            "description": f"{about} The tool is read_record.",
            "mimeType": MIME,
        }
        for kind, about in _KINDS.items()
    ),
    {
        "uriTemplate": "atk://reports/{id}{?project_path}",
        "name": "reports",
        "title": "Reports",
        "description": f"A Round's report, by the Round's id. The tool is {reporting.TOOL}.",
        "mimeType": reporting.MIME,
    },
)


def call_for(uri: str) -> tuple[str, Mapping[str, Any]] | None:
    """Returns the tool whose facts a resource has, and its arguments; None where there is no such resource."""
    path, _, asked = uri.partition("?")
    given = dict(parse_qsl(asked, keep_blank_values=True))
    if path == LISTED[0]["uri"]:
        return ("get_status", given) if set(given) <= {"project_path"} else None
    scheme, _, rest = path.partition("://")
    kind, _, name = rest.partition("/")
    if (scheme, kind) == ("atk", "reports") and name and set(given) <= {"project_path"}:
        return reporting.TOOL, {"round_id": unquote(name), **given}
    if scheme != "atk" or kind not in _KINDS or not name or not set(given) <= set(_QUERY):
        return None
    record_id = unquote(name)
    return "read_record", {"record_id": f"journal-{record_id}" if kind == "journal" else record_id, **given}
