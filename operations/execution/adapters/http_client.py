"""The process of one attempt at an agent behind HTTP: posts the Case, writes the answer, exits with the outcome.

It is started by file name with an isolated interpreter, so it uses the standard library only. Its options come as JSON
in the variable `ATK_ADAPTER_OPTIONS`. Exit codes: 0 completed, 1 the agent's error, 75 infrastructure, 143 cancelled.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import re
import signal
import ssl
import string
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any, NoReturn
from urllib.parse import quote, urlsplit

COMPLETED, AGENT_ERROR, INFRA_ERROR, CANCELLED = 0, 1, 75, 143
EXIT_CODES = {"completed": COMPLETED, "agent_error": AGENT_ERROR, "infra_error": INFRA_ERROR}
OPTIONS = "ATK_ADAPTER_OPTIONS"
_RETRIED = (429, 503)
_CANCEL_SECONDS = 1.5
"""The guardian kills soon after it asks for an end, so a cancel call has to be short."""
_READY_EVERY_SECONDS = 0.2
_PAUSES_SECONDS = (0.2, 5.0)
"""The shortest pause before a Case is posted again, doubled each time, and how long it gets: an endpoint may ask for
none, again and again."""
_MARGIN_SECONDS = 1.0
"""How long before the attempt's limit a wait for the endpoint ends, so that it ends as infrastructure."""
_ERROR_BODY_CHARACTERS = 2_000
_SUCCESS = range(200, 300)
_AGENTS_FAULT = range(400, 600)
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class Ended(Exception):
    """The attempt is over: with which exit code, and why in words."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


@dataclass(frozen=True)
class Answer:
    """What the endpoint answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Client:
    """One attempt's conversation with the endpoint."""

    def __init__(self, options: Mapping[str, Any], attempt_id: str) -> None:
        self._options = options
        self._attempt_id = attempt_id
        self._end = time.monotonic() + float(options["timeout_seconds"]) - _MARGIN_SECONDS
        self._posted = False

    def run(self, case: Mapping[str, Any]) -> bytes:
        """Returns the body of the answer to `case`.

        Raises:
            Ended: The endpoint gave none that counts as completed.
        """
        if self._options.get("ready_url"):
            self._wait_until_ready(str(self._options["ready_url"]))
        body = case["input"] if self._options["body"] == "input" else {**case, "attempt_id": self._attempt_id}
        data = json.dumps(body).encode("ascii")
        pause, longest = _PAUSES_SECONDS
        while True:
            self._posted = True
            answer = self._asked(data)
            outcome = outcome_of(answer.status, self._options["statuses"])
            if outcome == "completed":
                return answer.body
            reason = f"{self._options['endpoint']} answered {answer.status}{_elsewhere(answer)}: {_shown(answer.body)}"
            waited = retry_after(answer.headers) if answer.status in _RETRIED and outcome == "infra_error" else None
            if waited is None or time.monotonic() + max(waited, pause) >= self._end:
                raise Ended(EXIT_CODES[outcome], reason)
            sys.stderr.write(f"{reason}; asked to wait {waited:g} s\n")
            time.sleep(max(waited, pause))
            pause = min(2 * pause, longest)

    def cancel(self) -> None:
        """Tells the endpoint, where it can be told, that nobody waits for the answer any more."""
        url = self._options.get("cancel_url")
        if not url or not self._posted:
            return
        body = json.dumps({"attempt_id": self._attempt_id}).encode("ascii")
        try:
            answer = self._request("POST", str(url), body, _CANCEL_SECONDS)
            sys.stderr.write(f"Cancelled: {url} answered {answer.status}.\n")
        except (OSError, http.client.HTTPException, Ended) as trouble:
            sys.stderr.write(f"The cancel call to {url} failed: {_words(trouble)}.\n")

    def _wait_until_ready(self, url: str) -> None:
        end = min(self._end, time.monotonic() + float(self._options["ready_seconds"]))
        while True:
            try:
                answer = self._request("GET", url, None, max(0.1, end - time.monotonic()))
                if answer.status in _SUCCESS:
                    return
                last = f"answered {answer.status}"
            except (OSError, http.client.HTTPException) as trouble:
                last = _words(trouble)
            if time.monotonic() + _READY_EVERY_SECONDS >= end:
                raise Ended(INFRA_ERROR, f"{url} was not ready in time; last: {last}.")
            time.sleep(_READY_EVERY_SECONDS)

    def _asked(self, data: bytes) -> Answer:
        endpoint = str(self._options["endpoint"])
        left = max(0.1, self._end + 2 * _MARGIN_SECONDS - time.monotonic())  # the guardian is to time it out, not we
        try:
            return self._request(str(self._options["method"]), endpoint, data, left)
        except http.client.IncompleteRead as short:
            raise Ended(INFRA_ERROR, f"{endpoint} did not end its answer: {_words(short)}.") from short
        except (OSError, http.client.HTTPException) as trouble:
            raise Ended(INFRA_ERROR, f"{endpoint} cannot be reached: {_words(trouble)}.") from trouble

    def _request(self, method: str, url: str, body: bytes | None, seconds: float) -> Answer:
        headers = {"Accept": "application/json", "ATK-Attempt": self._attempt_id}
        if body is not None:
            headers["Content-Type"] = "application/json"
        headers.update({name: _header(name, value) for name, value in self._options["headers"].items()})
        whole = with_variables(url.replace("{attempt_id}", quote(self._attempt_id, safe="")))
        try:
            return self._answer(method, whole, body, headers, seconds)
        except ValueError as wrong:  # the words of the library would show what a variable holds
            raise Ended(INFRA_ERROR, f"{url} cannot be asked: its host or port cannot exist.") from wrong

    def _answer(self, method: str, url: str, body: bytes | None, headers: Mapping[str, str], seconds: float) -> Answer:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        connection: http.client.HTTPConnection
        if parts.scheme == "https":
            connection = http.client.HTTPSConnection(host, port, timeout=seconds, context=ssl.create_default_context())
        else:
            connection = http.client.HTTPConnection(host, port, timeout=seconds)
        path = quote((parts.path or "/") + (f"?{parts.query}" if parts.query else ""), safe=string.punctuation)
        with contextlib.closing(connection):
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            limit = int(self._options["max_response_bytes"])
            read = response.read(limit + 1)
            if len(read) > limit:
                raise Ended(AGENT_ERROR, f"The answer is larger than max_response_bytes, {limit} bytes.")
            if response.length:  # a read of so many bytes at most does not say that the connection ended before them
                raise http.client.IncompleteRead(read, response.length)
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, read)


def outcome_of(status: int, given: Mapping[str, str]) -> str:
    """Returns what an HTTP status says of the attempt: the configured outcome, by number or as `5xx`, or the usual."""
    named = given.get(str(status)) or given.get(f"{status // 100}xx")
    if named:
        return named
    if status in _SUCCESS:
        return "completed"
    return "agent_error" if status in _AGENTS_FAULT and status not in _RETRIED else "infra_error"


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Returns the seconds of a `Retry-After` header (RFC 9110, section 10.2.3), given in seconds or as a date."""
    given = headers.get("retry-after", "").strip()
    if not given:
        return None
    if given.isascii() and given.isdigit():
        return float(given)
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 - rare, and each attempt pays for what is loaded

    try:
        return max(0.0, parsedate_to_datetime(given).timestamp() - time.time())
    except ValueError:
        return None


def with_variables(text: str) -> str:
    """Returns `text` with each `${NAME}` replaced by that variable's value.

    Raises:
        Ended: A variable is not set.
    """

    def value(found: re.Match[str]) -> str:
        if found[1] not in os.environ:
            raise Ended(INFRA_ERROR, f"The variable {found[1]}, which the adapter's options use, is not set.")
        return os.environ[found[1]]

    return _VARIABLE.sub(value, text)


def _header(name: str, value: str) -> str:
    whole = with_variables(value)
    if re.search("[^\t -~\x80-\xff]", whole):  # the value may be a secret, and is not shown
        raise Ended(INFRA_ERROR, f"The header {name} has a character that no header can have.")
    return whole


def field(value: Any, path: str) -> Any:  # noqa: ANN401 - JSON
    """Returns the part of a JSON value that a dotted path names, such as `choices.0.text`.

    Raises:
        LookupError: There is no such part.
    """
    for part in path.split("."):
        try:
            value = value[int(part)] if isinstance(value, list) else value[part]
        except (LookupError, TypeError, ValueError) as missing:
            raise LookupError(f"the answer has no field {path!r}") from missing
    return value


def deliver(body: bytes, options: Mapping[str, Any], output_folder: str, events_path: str) -> None:
    """Writes the output to stdout, and what else the answer carries where an agent would write it.

    Raises:
        Ended: The answer lacks the field that is the output.
    """
    wanted = options.get("output_field")
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as broken:
        if wanted:
            raise Ended(AGENT_ERROR, f"The answer is not JSON, so it has no field {wanted!r}.") from broken
        value = None
    if isinstance(value, dict):
        for name, key in (("loading.json", options["loading_field"]), ("metrics.json", options["metrics_field"])):
            if value.get(key) is not None:
                with open(os.path.join(output_folder, name), "w", encoding="utf-8") as file:
                    json.dump(value[key], file)
        events = value.get(options["events_field"])
        if isinstance(events, list):
            with open(events_path, "w", encoding="utf-8") as file:
                file.writelines(json.dumps(event) + "\n" for event in events)
    if wanted:
        try:
            found = field(value, str(wanted))
        except LookupError as missing:
            raise Ended(AGENT_ERROR, f"{str(missing).capitalize()}: {_shown(body)}") from missing
        body = (found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)).encode(
            "utf-8", "surrogatepass"
        )
    sys.stdout.buffer.write(body)
    sys.stdout.buffer.flush()


def _elsewhere(answer: Answer) -> str:
    return f" and points to {answer.headers['location']}" if "location" in answer.headers else ""


def _shown(body: bytes) -> str:
    text = body.decode("utf-8", "replace")
    return text if len(text) <= _ERROR_BODY_CHARACTERS else text[:_ERROR_BODY_CHARACTERS] + "…"


def _words(trouble: BaseException) -> str:
    return str(trouble) or type(trouble).__name__


def _on_sigterm(_number: int, _frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough, and the cancel call is to be made in peace
    raise Ended(CANCELLED, "The attempt was ended by ATK before the endpoint answered.")


def main() -> int:
    """Makes the attempt and returns the exit code that says how it went."""
    parser = argparse.ArgumentParser(description="Make one attempt at an agent behind HTTP.")
    for name in ("input-file", "attachments-file", "output-dir", "events-file", "case-id", "repeat-index"):
        parser.add_argument(f"--{name}", required=True)
    given = parser.parse_args()
    options = json.loads(os.environ.pop(OPTIONS))
    attempt = os.path.dirname(given.output_dir)
    client = Client(options, f"{os.path.basename(os.path.dirname(attempt))}.{os.path.basename(attempt)}")
    signal.signal(signal.SIGTERM, _on_sigterm)
    try:
        with open(given.input_file, encoding="utf-8") as file:
            case = {"case_id": given.case_id, "repeat_index": int(given.repeat_index), "input": json.load(file)}
        with open(given.attachments_file, encoding="utf-8") as file:
            case["attachments"] = json.load(file)
        deliver(client.run(case), options, given.output_dir, given.events_file)
    except Ended as ended:
        sys.stderr.write(f"{ended}\n")
        if ended.code == CANCELLED:
            client.cancel()
        return ended.code
    return COMPLETED


if __name__ == "__main__":
    sys.exit(main())
