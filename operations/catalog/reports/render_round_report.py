"""`render_round_report`: a Round as a report for people and for CI."""

from __future__ import annotations

import os
from typing import Annotated, Literal

from pydantic import Field

from operations.context import Context
from operations.definition import Effect, Example, Request, Response, operation, steps
from operations.reports import documents, pages
from operations.reports.gathering import round_report
from storage import views
from storage.errors import NextCall
from storage.files import StoreDamaged
from storage.projection import UnknownObject
from storage.schema.base import ObjectId
from storage.schema.rounds import Round
from storage.sealing import SealBroken

Format = Literal["html", "markdown", "junit", "json"]
_FILES: dict[Format, str] = {"html": pages.INDEX, "markdown": "report.md", "junit": "junit.xml", "json": "report.json"}


class RenderRoundReportRequest(Request):
    round_id: Annotated[ObjectId, Field(description="The Round.")]
    formats: Annotated[
        list[Format],
        Field(min_length=1, description="html for people, markdown for a pull request, the others for CI."),
    ] = ["html"]


class RenderRoundReportResponse(Response):
    round_id: ObjectId
    result: Annotated[str | None, Field(description="Of the newest final Validation, else of the newest.")]
    paths: Annotated[dict[str, str], Field(description="Format → file. HTML needs nothing else to be opened.")]
    files: int
    bytes: int


@operation(
    effect=Effect.STORE,
    idempotent=True,
    raises=(UnknownObject, StoreDamaged, SealBroken),
    examples=(Example("For a pull request.", {"round_id": "round-6-y6pc", "formats": ["html", "markdown"]}),),
)
def render_round_report(request: RenderRoundReportRequest, context: Context) -> RenderRoundReportResponse:
    """Write a Round as a report: verdict, statistics, Cases before and after, budgets, who allowed what.

    It is made from the sealed records each time and is no record itself; holdout Cases stay unseen until both final
    sides are sealed.
    """
    project = context.project
    state = project.state()
    report = round_report(project, state, state.get(Round, request.round_id))
    written: list[tuple[str, bytes]] = []
    for name in dict.fromkeys(request.formats):
        context.progress(len(written), None, f"writing {name}")
        match name:
            case "html":
                written += [(path, text.encode()) for path, text in pages.round_pages(report)]
            case "markdown":
                written.append((_FILES[name], documents.as_markdown(report).encode()))
            case "junit":
                written.append((_FILES[name], documents.as_junit(report).encode()))
            case "json":
                written.append((_FILES[name], documents.as_json(report).encode()))
    paths = views.write_pages(project.store, report.round_id, written)
    about = report.headline or report.repair
    folder = os.path.join(project.store.path, views.REPORTS, report.round_id)
    return RenderRoundReportResponse(
        message=f"The report of {report.round_id} is written: {report.result or 'nothing was compared yet'}.",
        round_id=report.round_id,
        result=report.result,
        paths={name: os.path.join(folder, _FILES[name]) for name in dict.fromkeys(request.formats)},
        files=len(paths),
        bytes=sum(len(data) for _, data in written),
        next=steps(NextCall("read_record", {"record_id": about.validation_id if about else report.round_id})),
    )
