"""A Round's report as a resource reads it: Markdown made from the records at that moment, and written nowhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from operations.definition import Operation

TOOL = "render_round_report"
"""The tool that tells the same facts, and writes them into files."""

MIME = "text/markdown"


class Readings(Mapping[str, "Operation[Any, Any]"]):
    """What resources read beyond the tools: under the name of the tool that tells the same, made when it is needed."""

    def __getitem__(self, name: str) -> Operation[Any, Any]:
        if name != TOOL:
            raise KeyError(name)
        return _reading()

    def __iter__(self) -> Iterator[str]:
        return iter((TOOL,))

    def __len__(self) -> int:
        return 1


READINGS = Readings()


def _reading() -> Operation[Any, Any]:
    from operations.context import Context  # noqa: PLC0415 - operations load at the first call
    from operations.definition import Effect, Operation, Request, Response  # noqa: PLC0415 - as above
    from operations.reports.documents import as_markdown  # noqa: PLC0415 - as above
    from operations.reports.gathering import round_report  # noqa: PLC0415 - as above
    from storage.projection import UnknownObject  # noqa: PLC0415 - as above
    from storage.schema.base import ObjectId  # noqa: PLC0415 - as above
    from storage.schema.rounds import Round  # noqa: PLC0415 - as above

    class ReportRequest(Request):
        round_id: ObjectId

    class ReportResponse(Response):
        markdown: str

    def read(request: ReportRequest, context: Context) -> ReportResponse:
        project = context.project
        state = project.state()
        report = round_report(project, state, state.get(Round, request.round_id))
        return ReportResponse(message=f"The report of {report.round_id}.", markdown=as_markdown(report))

    return Operation(
        name=TOOL,
        group="reports",
        description="Reads a Round's report.",
        request=ReportRequest,
        response=ReportResponse,
        effect=Effect.READ,
        idempotent=True,
        raises=(UnknownObject,),
        examples=(),
        handler=read,
        replay=None,
    )


def text_of(result: Mapping[str, Any]) -> str:
    """Returns the Markdown in a result; where it was cut, it says so and where the whole is."""
    structure = result["structuredContent"]
    text: str = structure.get("markdown", "")
    return f"{text}\n\n*The rest is left out; {TOOL} writes all of it.*\n" if "truncated" in structure else text
