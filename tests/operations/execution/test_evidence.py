"""An ending means what it says about the agent, and a text that was cut never ends in half a secret."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operations.execution.evidence import Recorder, end_of, start_of, status_of
from operations.execution.guardian import Ended
from storage.masking import Masker

NOW = "2026-01-01T00:00:00+00:00"


def ended(end, **known):
    return Ended(end, NOW, NOW, 1.0, **known)


@pytest.mark.parametrize(
    ("end", "known", "status"),
    [
        ("exited", {"exit_code": 0}, "completed"),
        ("exited", {"exit_code": 1}, "agent_error"),
        ("exited", {"exit_code": 0, "stdout_full": True}, "agent_error"),
        ("exited", {"exit_code": 0, "stderr_full": True}, "agent_error"),
        ("exited", {"exit_code": 0, "error": "not kept"}, "infra_error"),
        ("timeout", {"error": "not kept"}, "infra_error"),
        ("cancelled", {"error": "not kept"}, "cancelled"),
        ("exited", {"exit_code": 75}, "infra_error"),
        ("exited", {"signal": 11}, "agent_error"),
        ("exited", {}, "agent_error"),
        ("timeout", {"exit_code": 0}, "timeout"),
        ("cancelled", {"exit_code": 0}, "cancelled"),
        ("server_gone", {"exit_code": 0}, "cancelled"),
        ("not_started", {"exit_code": 0}, "infra_error"),
    ],
)
def test_only_a_process_that_ended_by_itself_says_something_about_the_agent(end, known, status):
    assert status_of(ended(end, **known), (75,)) == status


@given(st.binary())
def test_bytes_that_are_whole_utf8_come_back_and_others_are_counted(data):
    text = start_of(data, cut=False)
    assert text.replaced_bytes == text.text.count("\ufffd") - data.decode("utf-8", "ignore").count("\ufffd")
    if not text.replaced_bytes:
        assert text.text.encode() == data


@given(st.text(), st.integers(0, 40))
def test_a_text_that_was_cut_is_the_beginning_of_the_whole(text, size):
    data = text.encode()
    kept = start_of(data[:size], cut=True)
    assert text.startswith(kept.text)
    assert kept.replaced_bytes == 0


@pytest.mark.parametrize("white", ["", " "])
def test_a_secret_that_the_cut_went_through_is_not_kept_in_part(white):
    words = "word " * 2000 if white else "w" * 9000
    assert "half" not in start_of(f"{words}{white}half-a-secret".encode(), cut=True).text
    assert "half" not in end_of(f"half-a-secret{white or 'w' * 9000}{words}".encode(), cut=True).text


class BrokenMasker(Masker):
    def text(self, text):
        raise RuntimeError(text)


def test_evidence_that_cannot_be_masked_is_not_kept_and_is_nobodys_success(bench):
    bench.run(bench.sh("echo secret"))
    plan = bench.plan(["true"])
    recorder = Recorder(plan, BrokenMasker(b"k" * 32))
    record = recorder.record(plan.slots[0], ended("exited", exit_code=0, stdout_bytes=7), f"{bench.work}/0")
    assert (record.output, record.output_status, record.execution.status) == (None, "unparsable", "infra_error")
    assert "secret" not in record.model_dump_json()


def test_tokens_of_a_text_that_is_masked_are_not_kept(bench):
    secret = "ghp_" + "a1B2" * 9
    said = [
        {"kind": "text", "role": "assistant", "content": text, "tokens": {"token_ids": [7, 8], "logprobs": [-1, -2]}}
        for text in ("fine", f"it is {secret}")
    ]
    bench.run(bench.sh("true"))
    with open(f"{bench.work}/0/events.jsonl", "w", encoding="utf-8") as file:
        file.write("".join(json.dumps(event) + "\n" for event in said))
    plan = bench.plan(["agent", "{events_file}"])
    record = Recorder(plan, Masker(b"k" * 32)).record(plan.slots[0], ended("exited", exit_code=0), f"{bench.work}/0")
    assert [event.get("tokens") for event in record.events] == [said[0]["tokens"], None]
    assert record.notes[-1] == "The tokens of 1 event in events.jsonl are not kept: they would say what is masked."
