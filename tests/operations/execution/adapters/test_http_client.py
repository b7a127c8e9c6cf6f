"""An agent behind HTTP: each answer becomes the outcome that it means, through the real supervisor."""

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from operations.execution.adapters import http_client
from operations.execution.adapters.process import agent_process
from storage.schema.projects import Project


class Endpoint:
    """A scripted endpoint: `answers` maps a path to what it gives; every request is kept."""

    def __init__(self):
        self.requests = []
        self.answers = {}
        self.release = threading.Event()
        self.arrived = threading.Event()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def handle_any(self):
                size = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(size)) if size else None
                endpoint.requests.append((self.command, self.path, body, dict(self.headers)))
                given = endpoint.answers[self.path.partition("?")[0]]
                status, headers, data = given.pop(0) if isinstance(given, list) and len(given) > 1 else given[0]
                if status == "hang":
                    endpoint.arrived.set()
                    endpoint.release.wait(60)
                    return
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data if isinstance(data, bytes) else json.dumps(data).encode())

            do_GET = do_POST = do_PUT = handle_any  # noqa: N815 - names of http.server

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()

    def close(self):
        self.release.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def endpoint():
    made = Endpoint()
    yield made
    made.close()


def project(**options):
    return Project(
        id="project-1-abcd",
        workspace_path="/target",
        created_at="2024-05-06T07:08:09+00:00",
        analysis_only=True,
        adapter="http",
        adapter_options=options,
        environment=options.pop("environment", ()),
        run_config_digest="0" * 64,
    )


def run(bench, inputs=("hello",), source=None, timeout=30, **options):
    """Makes attempts at an HTTP agent, as a run of a project with these options does."""
    process = agent_process(project(**options), bench.target, timeout_seconds=timeout, source=source)
    return bench.run(
        process.command,
        inputs,
        environment=process.environment,
        infrastructure_exit_codes=process.infrastructure_exit_codes,
        timeout_seconds=timeout,
    )


def test_the_case_is_posted_as_json_and_the_named_field_is_the_output(bench, endpoint):
    answer = {"text": "à bientôt", "loading": [{"component_id": "p"}], "metrics": {"cost": 0.5, "tool_calls": 2}}
    endpoint.answers["/answer"] = [(200, {}, answer)]
    (record,) = run(bench, [{"q": "où?"}], endpoint=endpoint.url + "/answer?a=1", output_field="text")
    assert (record.execution.status, record.output) == ("completed", "à bientôt")
    assert record.loading_evidence == ({"component_id": "p"},)
    assert {k: v for k, v in record.metrics.items() if k != "duration_seconds"} == {"cost": 0.5, "tool_calls": 2}
    ((method, path, body, headers),) = endpoint.requests
    assert (method, path, headers["ATK-Attempt"]) == ("POST", "/answer?a=1", body["attempt_id"])
    assert body == {
        "attempt_id": "work.0",
        "case_id": "c0",
        "repeat_index": 1,
        "input": {"q": "où?"},
        "attachments": [],
    }


def test_without_a_field_the_whole_body_is_the_output_and_the_input_alone_can_be_posted(bench, endpoint):
    endpoint.answers["/"] = [(201, {}, b"plain text")]
    (record,) = run(bench, ["just this"], endpoint=endpoint.url, body="input", method="PUT")
    assert (record.execution.status, record.output) == ("completed", "plain text")
    assert endpoint.requests[0][0] == "PUT"
    assert endpoint.requests[0][2] == "just this"


USUAL = {400: "agent_error", 500: "agent_error", 429: "infra_error", 503: "infra_error", 302: "infra_error"}
CONFIGURED = {502: "infra_error", 404: "completed", 503: "agent_error"}


@pytest.mark.parametrize(
    ("statuses", "outcomes"),
    [({}, USUAL), ({"502": "infra_error", "4xx": "completed", "5xx": "agent_error"}, CONFIGURED)],
)
def test_a_status_becomes_the_outcome_it_means_or_the_one_it_is_given(bench, endpoint, statuses, outcomes):
    endpoint.answers["/"] = [(status, {}, b"why") for status in outcomes]
    records = run(bench, [f"input {status}" for status in outcomes], endpoint=endpoint.url, statuses=statuses)
    assert [record.execution.status for record in records] == list(outcomes.values())
    said = [f"answered {status}: why" in r.stderr_tail for r, status in zip(records, outcomes, strict=True)]
    assert said == [outcome != "completed" for outcome in outcomes.values()]


def test_retry_after_is_waited_for_and_the_next_answer_counts(bench, endpoint):
    endpoint.answers["/"] = [(503, {"Retry-After": "0"}, b"busy"), (200, {}, b"done")]
    (record,) = run(bench, endpoint=endpoint.url)
    assert (record.execution.status, record.output, len(endpoint.requests)) == ("completed", "done", 2)
    assert "asked to wait 0 s" in record.stderr_tail


def test_an_endpoint_that_asks_for_no_pause_again_and_again_gets_one(bench, endpoint):
    endpoint.answers["/"] = [(429, {"Retry-After": "0"}, b"busy")]
    (record,) = run(bench, endpoint=endpoint.url, timeout=4)
    assert (record.execution.status, record.execution.end) == ("infra_error", "exited")
    assert 2 <= len(endpoint.requests) <= 5  # after pauses of 0.2, 0.4, 0.8, 1.6 s


def test_a_retry_after_beyond_the_timeout_is_infrastructure_at_once(bench, endpoint):
    endpoint.answers["/"] = [(429, {"Retry-After": "3600"}, b"busy")]
    (record,) = run(bench, endpoint=endpoint.url)
    assert (record.execution.status, record.execution.end, len(endpoint.requests)) == ("infra_error", "exited", 1)


def test_an_answer_that_ends_before_its_length_is_infrastructure(bench, endpoint):
    endpoint.answers["/"] = [(200, {"Content-Length": "5000"}, b"half an answer")]
    (record,) = run(bench, endpoint=endpoint.url)
    assert (record.execution.status, record.output) == ("infra_error", "")
    assert "did not end its answer" in record.stderr_tail


def test_a_redirect_is_told_with_where_it_points_to(bench, endpoint):
    endpoint.answers["/"] = [(307, {"Location": "/elsewhere"}, b"")]
    (record,) = run(bench, endpoint=endpoint.url)
    assert "answered 307 and points to /elsewhere" in record.stderr_tail


@pytest.mark.parametrize("value", ["s3cret\nline", "s3cret\u65e5", "s3cret\x01"])
def test_a_header_that_cannot_be_sent_is_infrastructure_and_its_value_is_not_shown(bench, endpoint, value):
    given = {"headers": {"X-Key": "${K}"}, "environment": ("K",), "source": {"K": value}}
    (record,) = run(bench, endpoint=endpoint.url, **given)
    assert (record.execution.status, endpoint.requests) == ("infra_error", [])
    assert "header X-Key" in record.stderr_tail
    assert "s3cret" not in record.stderr_tail


@pytest.mark.parametrize("host", ["h:99999", "h:abc", "a" * 70 + ".example"])
def test_a_host_that_cannot_exist_is_infrastructure_and_is_not_shown(bench, host):
    (record,) = run(bench, endpoint="http://${H}/", environment=("H",), source={"H": host})
    assert record.execution.status == "infra_error"
    assert "http://${H}/ cannot be asked" in record.stderr_tail


def test_a_path_may_have_any_character(bench, endpoint):
    endpoint.answers["/caf%C3%A9%20a%2Fb"] = [(200, {}, b"done")]
    (record,) = run(bench, endpoint=endpoint.url + "/caf\u00e9 a%2Fb")
    assert record.output == "done"


def test_nobody_listening_is_infrastructure(bench):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (record,) = run(bench, endpoint=f"http://127.0.0.1:{port}/")
    assert record.execution.status == "infra_error"
    assert "cannot be reached" in record.stderr_tail


def test_the_endpoint_is_waited_for_until_it_is_ready(bench, endpoint):
    endpoint.answers["/ready"] = [(503, {}, b""), (200, {}, b"")]
    endpoint.answers["/"] = [(200, {}, b"done")]
    (record,) = run(bench, endpoint=endpoint.url, ready_url=endpoint.url + "/ready")
    assert record.output == "done"
    assert [path for _, path, _, _ in endpoint.requests] == ["/ready", "/ready", "/"]


def test_an_endpoint_that_never_gets_ready_is_infrastructure_and_is_posted_nothing(bench, endpoint):
    endpoint.answers["/ready"] = [(503, {}, b"")]
    (record,) = run(bench, endpoint=endpoint.url, ready_url=endpoint.url + "/ready", ready_seconds=0.3)
    assert record.execution.status == "infra_error"
    assert {path for _, path, _, _ in endpoint.requests} == {"/ready"}


def test_an_attempt_that_is_stopped_tells_the_endpoint(bench, endpoint):
    endpoint.answers["/"] = [("hang", {}, b"")]
    endpoint.answers["/cancel/work.0"] = [(204, {}, b"")]
    process = agent_process(
        project(endpoint=endpoint.url, cancel_url=endpoint.url + "/cancel/{attempt_id}"),
        bench.target,
        timeout_seconds=60,
    )
    plan = bench.plan(process.command, environment=process.environment, timeout_seconds=60, grace_seconds=5)
    handle = bench.start(plan)
    assert endpoint.arrived.wait(60)
    handle.stop()
    assert handle.wait(60)
    (record,) = bench.records()
    assert record.execution.status == "cancelled"
    assert endpoint.requests[-1][:3] == ("POST", "/cancel/work.0", {"attempt_id": "work.0"})


def test_an_answer_without_the_field_is_the_agents_error(bench, endpoint):
    endpoint.answers["/"] = [(200, {}, {"other": 1})]
    (record,) = run(bench, endpoint=endpoint.url, output_field="text.0")
    assert record.execution.status == "agent_error"
    assert "no field 'text.0'" in record.stderr_tail


@pytest.mark.parametrize(
    ("body", "field", "output"),
    [
        (b"[" * 20_000 + b"]" * 20_000, None, "[" * 20_000 + "]" * 20_000),
        (b'{"text": "a\\ud800b"}', "text", "a\ufffd\ufffd\ufffdb"),
    ],
)
def test_an_answer_that_no_reader_likes_is_still_the_output(bench, endpoint, body, field, output):
    endpoint.answers["/"] = [(200, {}, body)]
    (record,) = run(bench, endpoint=endpoint.url, output_field=field)
    assert (record.execution.status, record.output) == ("completed", output)


def test_an_answer_that_is_too_large_is_the_agents_error(bench, endpoint):
    endpoint.answers["/"] = [(200, {}, b"x" * 101)]
    (record,) = run(bench, endpoint=endpoint.url, max_response_bytes=100)
    assert record.execution.status == "agent_error"


def test_a_header_may_use_a_variable_whose_value_no_option_holds(bench, endpoint):
    endpoint.answers["/"] = [(200, {}, b"done")]
    source = {"AGENT_KEY": "s3cret"}
    headers = {"Authorization": "Bearer ${AGENT_KEY}"}
    (record,) = run(bench, endpoint=endpoint.url, headers=headers, environment=("AGENT_KEY",), source=source)
    assert record.output == "done"
    assert endpoint.requests[0][3]["Authorization"] == "Bearer s3cret"


@pytest.mark.parametrize(
    ("given", "seconds"),
    [("12", 12.0), ("", None), ("soon", None), ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0), ("-5", None), ("²", None)],
)
def test_retry_after_is_read_in_both_its_forms(given, seconds):
    assert http_client.retry_after({"retry-after": given}) == seconds


def test_a_path_leads_into_lists_and_objects_or_says_what_is_missing():
    assert http_client.field({"choices": [{"text": "yes"}]}, "choices.0.text") == "yes"
    with pytest.raises(LookupError, match=r"choices\.1"):
        http_client.field({"choices": []}, "choices.1")


def test_events_of_an_answer_are_written_where_an_agent_would_write_them(tmp_path, capfdbinary):
    options = {"loading_field": "l", "metrics_field": "m", "events_field": "log.events", "output_field": None}
    body = json.dumps({"log.events": [{"type": "call"}, {"type": "answer"}]}).encode()
    http_client.deliver(body, options, str(tmp_path), str(tmp_path / "events.jsonl"))
    lines = (tmp_path / "events.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [{"type": "call"}, {"type": "answer"}]
    assert capfdbinary.readouterr().out == body
