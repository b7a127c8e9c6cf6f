"""What a request says of a specification, a judger and a verdict."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from operations.definition import Model, Reason
from storage.schema.base import ObjectId


class SpecGiven(Model):
    """A specification, whole."""

    version: Annotated[str, Field(min_length=1)] = "1"
    boundary: Annotated[str, Field(description="What belongs to the target and what does not.")] = "the whole agent"
    dimensions: Annotated[list[str], Field(min_length=1, max_length=20, description="The first is the primary one.")]
    dimension_rules: Annotated[dict[str, str], Field(description="Dimension → the rule by which it passes.")]
    denominator_rule: Annotated[str, Field(description="Which Records count.")] = "every slot of the plan"
    not_applicable_rules: Annotated[
        dict[str, str], Field(description="Dimension → when it does not apply; else no verdict is not_applicable.")
    ] = {}


class CalibrationGiven(Model):
    """One judgement whose right answer is known."""

    source_ref: Annotated[str, Field(min_length=1, description="Where the right answer is from.")]
    expected: Literal["pass", "fail"]
    observed: Literal["pass", "fail", "unknown", "not_applicable"]


class JudgerGiven(Model):
    """Who judges, and how."""

    version: Annotated[str, Field(min_length=1)] = "1"
    method: Annotated[
        Literal[
            "client", "command", "exact", "contains", "regex", "numeric", "json_equality", "json_subset", "json_schema"
        ],
        Field(
            description="client: you send rows. command: ATK starts it. Else ATK compares output and expected answer."
        ),
    ] = "client"
    readiness: Literal["calibrated", "uncalibrated"] = "uncalibrated"
    dimension: Annotated[str | None, Field(description="What a rule judges. Default: the first dimension.")] = None
    settings: Annotated[
        dict[str, Any],
        Field(
            description="Of a rule: ignore_case, strip, json_field. regex: pattern, whole, absent. numeric: "
            "absolute_tolerance, relative_tolerance, take (whole, first, last, only), thousands. json_*: document "
            "(whole, fenced). json_equality: ignore_order, ignore_fields. json_subset: lists (same_length, any_order). "
            "json_schema: schema. command: probe_authorization_id."
        ),
    ] = {}
    calibration_examples: list[CalibrationGiven] = []


class RestGiven(Model):
    """What is said of all that no row is about."""

    verdict: Literal["pass", "fail", "unknown"]
    reason: Reason


class RowGiven(Model):
    """One verdict."""

    record_id: Annotated[ObjectId, Field(description="A Record; of a deal, an item.")]
    verdict: Literal["pass", "fail", "unknown", "not_applicable"]
    dimension: Annotated[str | None, Field(description="Needed where there are several.")] = None
    reason: str = ""
    validity: Literal["valid", "invalid", "unknown"] | None = None
    validity_reason: str = ""
    score: float | None = None
    evidence_refs: Annotated[list[dict[str, str]] | None, Field(description="Default: the Record itself.")] = None
