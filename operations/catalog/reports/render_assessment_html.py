"""`render_assessment_html`: an Assessment as a page for people."""

from __future__ import annotations

import os
from typing import Annotated

from pydantic import Field

from operations.context import Context
from operations.definition import Effect, Example, Request, Response, operation, steps
from operations.reports.judged import assessment_report
from operations.reports.pages import assessment_pages
from operations.wording import counted
from storage import views
from storage.errors import NextCall
from storage.files import StoreDamaged
from storage.projection import UnknownObject
from storage.schema.assessments import Assessment
from storage.schema.base import ObjectId
from storage.sealing import SealBroken


class RenderAssessmentHtmlRequest(Request):
    assessment_id: Annotated[ObjectId, Field(description="The Assessment.")]


class RenderAssessmentHtmlResponse(Response):
    assessment_id: ObjectId
    html_path: Annotated[str, Field(description="Open it in a browser; it needs nothing else.")]
    files: Annotated[int, Field(description="With the pages of Records, where there are many.")]
    bytes: int


@operation(
    effect=Effect.STORE,
    idempotent=True,
    raises=(UnknownObject, StoreDamaged, SealBroken),
    examples=(Example("A page of verdicts.", {"assessment_id": "assessment-16-e0w1"}),),
)
def render_assessment_html(request: RenderAssessmentHtmlRequest, context: Context) -> RenderAssessmentHtmlResponse:
    """Write an Assessment as HTML for people: counts, then every Record with input, output, verdict and reason.

    The page is made from the records each time, needs no network and no script, and is no record itself.
    """
    project = context.project
    state = project.state()
    report = assessment_report(project, state, state.get(Assessment, request.assessment_id))
    pages = [(name, text.encode()) for name, text in assessment_pages(report)]
    paths = views.write_pages(project.store, report.assessment_id, pages)
    return RenderAssessmentHtmlResponse(
        message=f"{report.assessment_id} is written as HTML: {counted(len(report.judged), 'Record')}, failures first.",
        assessment_id=report.assessment_id,
        html_path=os.path.join(project.store.path, paths[-1]),
        files=len(paths),
        bytes=sum(len(data) for _, data in pages),
        next=steps(NextCall("read_record", {"record_id": report.assessment_id})),
    )
