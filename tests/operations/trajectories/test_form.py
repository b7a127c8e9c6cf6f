"""The form that needs no library, the models of the store and the published schema say the same."""

import json
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from operations.trajectories import EventLog, LogProblem, content, form
from storage.schema import events as stored

SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "schemas" / "event-log.schema.json").read_text("utf-8"))
MODELS = {model.model_fields["kind"].default: model for model in get_args(get_args(stored.Event)[0])}
CHECKER = Draft202012Validator(SCHEMA)

texts = st.sampled_from(["x", "y", "assistant", "step", "read", ""])
moments = st.sampled_from(["2026-01-31T12:00:00Z", "2026-01-31T12:00:00.5+01:00", "2026-01-31", "2026-13-01T00:00:00Z"])
numbers = st.sampled_from([0, 1, -1, 0.5, True, 2**70])
contents = st.sampled_from([content("x"), content(None), {"status": "odd"}, {"status": "value", "more": 1}, "x"])
objects = st.sampled_from(
    [
        {},
        {"kind": "tool", "message": "no"},
        {"kind": "odd"},
        {"name": "m", "provider": None},
        {"file": "f", "row": 1, "line": 2},
        {"file": "f", "row": 0},
        {"token_ids": [1, 2], "logprobs": [-0.5, 0]},
        {"token_ids": [1], "mask": [True, False]},
        {"token_ids": [1], "logprobs": [0.5]},
        {"output_tokens": 3},
        {"content": "unparsable"},
    ]
)
values = st.one_of(texts, moments, numbers, contents, objects, st.none())
kinds = st.sampled_from(form.KINDS)


@st.composite
def given_events(draw):
    """Draws an event of a kind with what it needs, mostly right, and some more fields."""
    kind = draw(kinds)
    event = {"kind": kind}
    right = {"role": "user", "name": "x", "call_id": "x", "scope": "episode", "value": 0.5, "operation": "read"}
    for name in form._NEEDED[kind]:
        event[name] = draw(values) if draw(st.integers(0, 9)) == 0 else right.get(name, content("x"))
    names = st.sampled_from([*form._COMMON, *form._MORE.get(kind, {}), "odd"])
    return event | draw(
        st.dictionaries(names.filter(lambda name: name not in {"kind", "seq", "id"}), values, max_size=2)
    )


def test_the_kinds_and_their_fields_are_those_of_the_models():
    assert {kind: set(fields) for kind, fields in form._FIELDS.items()} == {
        kind: set(model.model_fields) for kind, model in MODELS.items()
    }
    needed = {kind: [n for n, f in model.model_fields.items() if f.is_required()] for kind, model in MODELS.items()}
    assert {kind: {"seq", "id", *fields} for kind, fields in form._NEEDED.items()} == {
        kind: set(names) for kind, names in needed.items()
    }
    for ours, theirs in (
        (form.ROLES, stored.Role),
        (form.SCOPES, stored.RewardScope),
        (form.ERRORS, stored.ErrorKind),
        (form.STATUSES, stored.FieldStatus),
    ):
        assert ours == get_args(theirs)


@settings(max_examples=150)
@given(given_events())
def test_what_the_library_takes_the_store_and_the_schema_take_and_what_it_refuses_the_store_refuses(event):
    log = EventLog()
    try:
        log.append(event)
    except LogProblem:
        with pytest.raises(ValidationError):
            stored.EventLog.model_validate_json(json.dumps({"events": [{"seq": 0, "id": "e0", **event}]}), strict=True)
    else:
        log.end("completed")
        CHECKER.validate(log.as_stored())
        stored.EventLog.model_validate(log.as_stored())


def test_the_published_schema_is_one_and_describes_what_it_can():
    Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["title"] == "EventLog, format 1"
    told = SCHEMA["$defs"]["ToolResult"]["properties"]
    assert told["unpaired"]["description"].startswith("It answers no call")
    assert told["parent_outside"]["description"].startswith("The parent is not in the log")
    with_docs = [name for name, part in told.items() if "description" in part]
    assert {"seq", "id", "at", "error", "model", "attributes"} - set(with_docs) == {"error", "model"}
