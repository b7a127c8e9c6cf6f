"""Each detector finds what its rule says, and not what only looks like it."""

import pytest

from operations.trajectories import EventLog
from operations.trajectories.detectors import DETECTORS, Budget, Episode, detect
from tests.support.logs import value
from tests.support.trajectories import event, schema

LOOKUP = {"lookup": schema({"q": "string"})}


def episode(*events, state="completed", tools=None, **more):
    log = EventLog()
    for one in events:
        log.append(event(list(one)))
    log.end(state)
    return Episode(log, tools=tools, **more)


def found(*events, **more):
    """Returns the findings: detector → the events of each."""
    results = detect(episode(*events, **more))
    return {r.detector: [f.seqs for f in r.findings] for r in results if r.findings}


def said(name, *events, **more):
    """Returns what one detector says."""
    return next(r for r in detect(episode(*events, **more)) if r.detector == name)


def steps(*calls):
    """Returns calls with their results: (tool, arguments, result), and (tool, arguments, error kind, message)."""
    made = []
    for number, (tool, arguments, *outcome) in enumerate(calls):
        call_id = f"c{number}"
        made.append(("call", call_id, tool, arguments))
        made.append(("result", call_id, *outcome) if len(outcome) == 1 else ("fail", call_id, *outcome))
    return made


def asked(text, *calls, answer="That is all."):
    return [("user", text), *steps(*calls), ("say", answer)]


def q(text):
    return {"q": text}


# ---- loops -----------------------------------------------------------------------------------------------------------


def test_the_same_call_three_times_with_one_outcome_is_a_loop_and_twice_is_none():
    call = ("lookup", q("fax"), "no hits")
    assert found(*asked("Find the fax.", call, call, call)) == {"identical_loop": [(1, 2, 3, 4, 5, 6)]}
    assert found(*asked("Find the fax.", call, call)) == {}


@pytest.mark.parametrize(
    ("why", "calls"),
    [
        ("another outcome", [("s", {}, 1), ("s", {}, 2), ("s", {}, 3), ("s", {}, 4)]),
        ("another call between", [("s", {}, "x"), ("s", {}, "x"), ("t", {"a": 1}, "y"), ("s", {}, "x")]),
        ("retries of what timed out", [("s", {}, "timeout", "5 s")] * 6 + [("s", {}, "x")]),
        ("retries of what was down", [("s", {}, "infrastructure", "503")] * 4),
        ("waiting until it is done", [("s", {}, "running")] * 8 + [("s", {}, "done")]),
        ("waiting, with a pause between", [("s", {}, "running"), ("sleep", {"s": 9}, "ok")] * 6 + [("s", {}, "done")]),
        ("null and nothing are not one outcome", [("s", {}, None), ("s", {}, ""), ("s", {}, None)]),
    ],
)
def test_what_looks_like_an_identical_loop_is_none(why, calls):
    assert found(*asked("Go on.", *calls)).keys() <= {"ignored_error"}, why


def test_a_row_of_equal_outcomes_that_ends_by_an_error_was_no_waiting():
    calls = [("s", {}, "running")] * 3 + [("s", {}, "tool", "gone")]
    assert "identical_loop" in found(*asked("Go on.", *calls))


CIRCLE = [("read", q(name), f"In {name} there is a text of several words") for name in ("alpha", "beta", "gamma")]
TOLD = ("read", q("beta"), "Now beta tells of the missing key for the cellar")


@pytest.mark.parametrize(
    ("why", "calls", "stuck"),
    [
        ("four times around", CIRCLE * 4, True),
        ("twice around", CIRCLE * 2, False),
        ("around until one says more", [*CIRCLE * 4, *CIRCLE[:1], TOLD], False),
    ],
)
def test_going_in_a_circle_without_news_is_no_progress(why, calls, stuck):
    assert ("no_progress" in found(*asked("Find the key.", *calls))) is stuck, why


def shown(*presses, last=True):
    """Returns calls that say no more than that they were made, each with what could be seen after it."""
    made = [("user", "Go to the last entry.")]
    for number, (tool, arguments, view) in enumerate(presses):
        made += steps((tool, arguments, "Pressed the key on the page."))
        made[-2:] = [[one[0], f"c{number}", *one[2:]] for one in made[-2:]]
        if last or number < len(presses) - 1:
            made.append(["screen", view])
    return made


def seen_in(events):
    log = EventLog()
    for one in events:
        if one[0] == "screen":
            said = {"input": {"status": "not_exported"}, "output": {"status": "value", "value": one[1]}}
            log.append({"kind": "observation", "type": "environment", **said})
        else:
            log.append(event(list(one)))
    log.end("completed")
    results = detect(Episode(log))
    return {r.detector for r in results if r.findings} - {"premature_end"}


DOWN, UP = ("press", {"key": "Down"}), ("press", {"key": "Up"})


@pytest.mark.parametrize(
    ("why", "events", "stuck"),
    [
        ("each press shows another entry", shown(*((*DOWN, f"entry {n} of 99") for n in range(10))), set()),
        ("nothing moves", shown(*((*DOWN, "entry 1 of 99") for _ in range(10))), {"identical_loop"}),
        ("nothing moves to the end", shown(*((*DOWN, "entry 1") for _ in range(3)), last=False), {"identical_loop"}),
        ("it moves at last", shown(*((*DOWN, "loading") for _ in range(5)), (*DOWN, "entry 1 of 99")), set()),
        ("two keys, each time another", shown(*((*(DOWN, UP)[n % 2], f"entry {n}") for n in range(8))), set()),
        (
            "two keys to and fro",
            shown(*((*(DOWN, UP)[n % 2], f"entry {n % 2}") for n in range(8))),
            {"alternating_loop"},
        ),
        ("new pages by other keys", shown(*(("press", {"key": c}, f"what {c} opens") for c in "abcdefg")), set()),
        ("other keys, one page", shown(*(("press", {"key": c}, "the same page") for c in "abcdefg")), {"no_progress"}),
        (
            "the same key in other letters",
            shown(*(("press", {"key": c}, f"entry {n}") for n, c in enumerate(("down", "Down", "DOWN", "down ")))),
            set(),
        ),
    ],
)
def test_a_loop_needs_that_nothing_changes_of_what_can_be_seen(why, events, stuck):
    assert seen_in(events) == stuck, why


def test_a_span_that_a_recorder_puts_around_calls_changes_nothing_for_the_agent():
    events = shown(*((*DOWN, f"step {n}") for n in range(4)))
    log = EventLog()
    for one in events:
        span = {"kind": "observation", "type": "CHAIN", "input": {"status": "not_exported"}}
        log.append({**span, "output": value(one[1])} if one[0] == "screen" else event(list(one)))
    log.end("completed")
    assert {r.detector for r in detect(Episode(log)) if r.findings} >= {"identical_loop"}


def test_retries_without_an_end_are_a_loop():
    assert "identical_loop" in found(*asked("Go on.", *[("s", {}, "timeout", "5 s")] * 7))


def test_what_a_user_asks_for_again_is_no_loop():
    again = [("user", "Now?"), ("call", "c", "s", {}), ("result", "c", "red")]
    events = [[kind, f"{a}{n}", *rest] if kind != "user" else [kind, a] for n in range(4) for kind, a, *rest in again]
    assert found(*events, ("say", "It is red.")) == {}


def test_the_same_call_side_by_side_is_no_loop_since_no_outcome_was_there_yet():
    calls = [("call", f"c{n}", "draw", {}) for n in range(4)]
    assert found(("user", "Draw."), *calls, *[("result", f"c{n}", "ace") for n in range(4)], ("say", "ace")) == {}


def test_calls_whose_outcome_is_not_in_the_log_are_no_loop_and_not_clean():
    log = EventLog()
    log.append(event(["user", "Go."]))
    for number in range(5):
        log.append(event(["call", f"c{number}", "s", {}]))
    log.append(event(["say", "Done."]))
    log.end("completed")
    results = {r.detector: (r.status, r.not_applicable) for r in detect(Episode(log))}
    assert results["identical_loop"] == ("not_applicable", "the log has no result of any call")


def test_two_calls_in_turn_are_a_loop_from_three_times_each():
    pair = [("up", {"n": 1}, "hall"), ("down", {"n": 1}, "cellar")]
    assert found(*asked("Out.", *pair * 3)) == {"alternating_loop": [tuple(range(1, 13))]}
    assert found(*asked("Out.", *pair * 2, pair[0])) == {}


@pytest.mark.parametrize(
    ("why", "calls"),
    [
        ("the file changes", [c for n in range(4) for c in (("read", {"p": "a"}, f"v{n}"), ("edit", {"n": n}, "ok"))]),
        ("the job goes on", [c for n in range(4) for c in (("state", {}, {"done": n}), ("sleep", {"s": 5}, "ok"))]),
        ("pages", [c for n in range(4) for c in (("next", {}, f"p{n}"), ("save", {"page": n}, "ok"))]),
    ],
)
def test_calls_in_turn_that_get_somewhere_are_no_loop(why, calls):
    assert found(*asked("Go on.", *calls)) == {}, why


def test_one_question_in_four_spellings_is_a_loop_where_nothing_new_comes_of_it():
    spelt = ["return policy", "Return Policy", "policy, return", "RETURN  policy?"]
    nothing = [("lookup", q(s), "nothing found") for s in spelt]
    assert found(*asked("Returns?", *nothing)) == {"near_duplicate_loop": [tuple(range(1, 9))]}
    assert found(*asked("Returns?", *nothing[:3])) == {}
    helped = [("lookup", q(s), "nothing found" if n != 2 else "30 days, unused") for n, s in enumerate(spelt)]
    assert found(*asked("Returns?", *helped, answer="30 days, unused.")) == {}


@pytest.mark.parametrize(
    "spelt",
    [
        ["c", "C++", "C#", "c "],
        ["1.2", "12", "2.1", "1-2"],
        ["2026-01-02", "2026-02-01", "01-02-2026", "02-01-2026"],
        ["valve", "valves", "leaking valve", "valve row"],
    ],
)
def test_questions_that_differ_in_more_than_form_are_no_near_duplicates(spelt):
    assert "near_duplicate_loop" not in found(*asked("Go.", *[("lookup", q(s), "nothing found") for s in spelt]))


def test_numbers_that_differ_are_no_near_duplicates():
    assert "near_duplicate_loop" not in found(*asked("Go.", *[("page", {"n": n}, "") for n in range(6)]))


# ---- no progress -----------------------------------------------------------------------------------------------------

VAIN = ["relay port", "socket number", "network settings", "tcp configuration", "firewall exceptions"]


@pytest.mark.parametrize("nothing", ["no documents", "", [], {"hits": [], "total": 0}, "0 results", '{"hits": []}'])
def test_five_different_calls_that_bring_nothing_are_no_progress(nothing):
    vain = [("lookup", q(text), nothing) for text in VAIN]
    assert found(*asked("Which port?", *vain)) == {"no_progress": [tuple(range(1, 11))]}
    assert found(*asked("Which port?", *vain[:4])) == {}


def test_what_an_outcome_repeats_of_the_call_is_no_news():
    repeated = [("lookup", q(text), f"There are no documents on the subject '{text}'.") for text in VAIN]
    assert found(*asked("Which port?", *repeated)) == {"no_progress": [tuple(range(1, 11))]}
    failed = [("open", {"p": text}, "tool", f"{text} is no file") for text in VAIN]
    assert "no_progress" in found(*asked("Which port?", *failed))


def test_a_document_that_is_found_over_and_over_is_no_progress():
    page = "The relay is described in the manual of the vendor, which is out of print."
    vain = [("lookup", q(text), page) for text in [*VAIN, "service manual"]]
    assert found(*asked("Which port?", *vain)) == {"no_progress": [tuple(range(3, 13))]}


def test_an_error_that_is_met_over_and_over_is_no_progress():
    vain = [("lookup", q(text), "tool", "the index is closed") for text in VAIN]
    assert found(*asked("Which port?", *vain, answer="The index is closed, so I cannot tell.")) == {
        "no_progress": [tuple(range(1, 11))]
    }


@pytest.mark.parametrize(
    ("why", "text", "calls"),
    [
        ("writing says ok", "Write it.", [("write", {"p": f"f{n}", "t": f"text {n}"}, "ok") for n in range(8)]),
        ("writing says nothing", "Write it.", [("write", {"p": f"f{n}", "t": f"t{n}"}, None) for n in range(8)]),
        ("each host is up", "Check all.", [("ping", {"h": f"h{n}"}, "up") for n in range(8)]),
        ("pages", "Count.", [("page", {"n": n}, [f"o{n}a", f"o{n}b"]) for n in range(8)]),
        (
            "the user named them",
            "Are ann, bob, cid, dan, eve and fay taken?",
            [("lookup", q(n), "not found") for n in ("ann", "bob", "cid", "dan", "eve", "fay")],
        ),
        (
            "a result named them",
            "Any open cases?",
            [("list", {}, ["acme", "bolt", "corp", "dyne", "ergo"])]
            + [("cases", q(n), []) for n in ("acme", "bolt", "corp", "dyne", "ergo")],
        ),
    ],
)
def test_calls_that_do_something_or_answer_the_question_are_progress(why, text, calls):
    assert found(*asked(text, *calls)) == {}, why


# ---- calls -----------------------------------------------------------------------------------------------------------

BOOK = {"book": schema({"day": "string", "seats": "integer", "note?": "string"})}


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ({"day": "Monday", "seats": 2}, None),
        ({"day": "Monday", "seats": 2, "note": "window"}, None),
        ({"day": "Monday", "seats": 2.0}, None),
        ('{"day": "Monday", "seats": 2', "'book' was not"),
        (["Monday", 2], "are no JSON object"),
        ({"day": "Monday", "seats": "two"}, "'seats is string, not integer'"),
        ({"day": "Monday", "seats": True}, "'seats is boolean, not integer'"),
        ({"day": "Monday"}, "'seats is missing'"),
        ({"day": "Monday", "seats": 2, "hall": "B"}, "'hall is no field of it'"),
    ],
)
def test_arguments_are_held_against_what_the_tool_takes(arguments, wrong):
    result = said("malformed_call", ("user", "Book."), *steps(("book", arguments, "ok")), ("say", "ok"), tools=BOOK)
    assert result.status == ("clean" if wrong is None else "found")
    if isinstance(arguments, dict) and wrong:
        assert wrong in result.findings[0].reason
    if wrong:
        assert result.findings[0].seqs == (1, 2)


@pytest.mark.parametrize(
    ("part", "good", "bad"),
    [
        ({"enum": ["a", "b"]}, "a", "c"),
        ({"const": 4}, 4, 5),
        ({"type": ["string", "null"]}, None, 4),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, 4, 4.5),
        ({"allOf": [{"minimum": 2}, {"maximum": 3}]}, 2, 4),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 1}, [1], ["x"]),
        ({"type": "string", "minLength": 2}, "ab", "a"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, {"a": 1}, {"a": "x"}),
        ({"$ref": "#/$defs/count"}, 3, "x"),
        ({"pattern": "^a"}, "b", None),
    ],
)
def test_the_parts_of_json_schema_that_tools_use_are_understood(part, good, bad):
    tools = {"t": {"type": "object", "properties": {"f": part}, "$defs": {"count": {"type": "integer"}}}}
    assert said("malformed_call", *steps(("t", {"f": good}, "")), tools=tools).status == "clean"
    if bad is not None:
        assert said("malformed_call", *steps(("t", {"f": bad}, "")), tools=tools).status == "found"


def test_a_schema_that_unfolds_without_an_end_is_given_up_once():
    endless = {"anyOf": [{"$ref": "#/$defs/x"}] * 10, "required": ["f"]}
    tools = {"t": {"$defs": {"x": endless}, "$ref": "#/$defs/x"}, "u": schema({"g": "string"})}
    calls = [("t", {"g": n}, "") for n in range(50)]
    result = said("malformed_call", *steps(*calls, ("u", {"g": 1}, "")), tools=tools)
    assert [f.seqs for f in result.findings] == [(100, 101)]
    assert result.not_applicable == "50 calls have a schema that unfolds too far"


def test_arguments_as_the_text_of_an_object_are_read():
    log = EventLog()
    text = {"status": "value", "value": '{"day": "Monday", "seats": 2}'}
    log.append({"kind": "tool_call", "call_id": "c", "name": "book", "arguments": text})
    log.end("completed")
    assert {r.detector: r.status for r in detect(Episode(log, tools=BOOK))}["malformed_call"] == "clean"


@pytest.mark.parametrize(
    ("given", "tools", "status"),
    [
        ("ls -l", None, "not_applicable"),
        ("ls -l", {"shell": {"type": "object"}}, "found"),
        ('{"command": "ls', None, "found"),
        ('{"command": "ls"}', {"shell": {"type": "object"}}, "clean"),
    ],
)
def test_free_text_is_malformed_only_against_a_schema(given, tools, status):
    log = EventLog()
    arguments = {"status": "value", "value": given}
    log.append({"kind": "tool_call", "call_id": "c", "name": "shell", "arguments": arguments})
    log.end("completed")
    assert {r.detector: r.status for r in detect(Episode(log, tools=tools))}["malformed_call"] == status


def test_tools_are_taken_from_the_log_where_it_records_them():
    forms = [
        {"type": "function", "function": {"name": "book", "parameters": BOOK["book"]}},
        {"name": "see", "input_schema": {}},
        {"tool.json_schema": '{"type": "function", "function": {"name": "ask"}}'},
    ]
    log = EventLog()
    log.append({**event(["user", "Book."]), "attributes": {"tool_definitions": forms}})
    for one in steps(("book", {"day": 1}, "no"), ("see", {}, "yes"), ("ask", {}, "yes"), ("cook", {}, "no")):
        log.append(event(list(one)))
    log.end("completed")
    results = {r.detector: r for r in detect(Episode(log))}
    assert [f.seqs for f in results["malformed_call"].findings] == [(1, 2)]
    assert [f.seqs for f in results["unknown_tool"].findings] == [(7, 8)]
    assert [f.needs for f in results["unknown_tool"].findings] == [None]
    assert results["malformed_call"].not_applicable == "2 calls have no schema of their tool"


# ---- errors and ends -------------------------------------------------------------------------------------------------

FAILED = ("send", {"to": "Ana", "text": "The van is here."}, "tool", "recipient unknown")


SENT_AGAIN = ("send", {"to": "ana@x", "text": "The van is here."}, "sent")
SENT_TO_BO = ("send", {"to": "Bo", "text": "The van is here."}, "sent")
LONG = "the van before the red house in the old lane number"
FOUND_ONE = [("find", {"q": f"{LONG} one"}, "tool", "quota"), ("find", {"q": f"{LONG} two"}, "it is there")]
NOT_MADE, ADDED = ("make", {"n": "bo"}, "tool", "quota"), ("add", {"n": "bo", "to": "staff"}, "ok")
NOT_DELETED, REMOVED = ("delete", {"id": "d1"}, "tool", "quota"), ("remove", {"doc": "d1"}, "ok")
NO_SKY, SKY = ("sky", {"at": "Oslo"}, "tool", "quota"), ("find", {"q": "Oslo sky"}, "Oslo: showers")
LISTED = [
    ("people", {}, ["u1", "u2", "u3"]),
    ("notify", {"who": "u1"}, "ok"),
    ("notify", {"who": "u2"}, "tool", "mailbox full"),
    ("notify", {"who": "u3"}, "ok"),
]


@pytest.mark.parametrize(
    ("why", "text", "calls", "answer", "ignored"),
    [
        ("claimed", "Tell Ana.", [FAILED], "I told Ana.", True),
        ("told", "Tell Ana.", [FAILED], "I could not reach Ana.", False),
        ("repeated", "Tell Ana.", [FAILED], "Ana is a recipient the system calls unknown.", False),
        ("asked about", "Tell Ana.", [FAILED], "Shall I call Ana?", False),
        ("tried again", "Tell Ana.", [FAILED, SENT_AGAIN], "Done.", False),
        ("another of two", "Tell Ana and Bo.", [FAILED, SENT_TO_BO], "I told both.", True),
        ("another of two long ones", f"Find {LONG} one and {LONG} two.", FOUND_ONE, "I found both.", True),
        ("another way", "Tell Ana.", [FAILED, ("call", {"who": "Ana"}, "she knows")], "Ana knows.", False),
        ("a step before another", "Make bo and add him.", [NOT_MADE, ADDED], "Bo is added.", True),
        ("the same by another tool", "Rid d1.", [NOT_DELETED, REMOVED], "It is gone.", False),
        ("found elsewhere", "Rain in Oslo?", [NO_SKY, SKY], "Showers.", False),
        ("another matter", "Tell Ana.", [FAILED, ("log", {"level": "info"}, "ok")], "Ana knows.", True),
        ("only worded", "Tell Ana.", [("send", {"to": "Ana"}, {"error": "quota"})], "I told Ana.", True),
        ("a result about errors", "Errors?", [("logs", {}, "3 errors on Monday")], "There were 3.", False),
        ("one of a list", "Notify everybody.", LISTED, "Everybody was notified.", True),
    ],
)
def test_an_error_is_ignored_where_nothing_came_after_it_and_nobody_was_told(why, text, calls, answer, ignored):
    assert ("ignored_error" in found(*asked(text, *calls, answer=answer))) is ignored, why


@pytest.mark.parametrize(
    ("why", "events", "state", "crashed"),
    [
        ("the agent", [("stop", "agent", "KeyError")], "failed", True),
        ("the model, though it says completed", [("stop", "model", "context too long")], "completed", True),
        ("the machine", [("stop", "infrastructure", "out of memory"), ("turn", 5)], "interrupted", True),
        ("a timeout that failed the run", [("stop", "timeout", "600 s")], "failed", True),
        ("failed without an error", [("think", "Hm.")], "failed", True),
        ("recovered", [("stop", "model", "overloaded"), ("say", "Here it is.")], "completed", False),
        ("an error of a tool", [*steps(("s", {}, "tool", "no")), ("say", "It failed.")], "completed", False),
        ("cancelled by a person", [("stop", "cancelled", "by the user")], "cancelled", False),
    ],
)
def test_a_crash_is_an_error_that_ended_the_run(why, events, state, crashed):
    assert ("crash" in found(("user", "Go."), *events, state=state)) is crashed, why


def test_an_error_after_which_something_came_out_well_ended_nothing():
    silent, well = {"status": "not_exported"}, {"status": "value", "value": "found"}
    failed = {"kind": "observation", "input": silent, "output": silent, "error": {"kind": "unknown"}}
    spans = {False: [failed, {**failed, "error": None, "output": well}], True: [failed, {**failed, "error": None}]}
    for crashed, events in spans.items():
        log = EventLog()
        for one in events:
            log.append(one)
        log.end("unknown")
        found_in = {r.detector: [(f.seqs, f.confidence) for f in r.findings] for r in detect(Episode(log))}
        assert found_in["crash"] == ([((0,), 0.8)] if crashed else [])


@pytest.mark.parametrize(
    ("reason", "label"),
    [
        ("error_max_turns", "premature_end"),
        ("token limit reached", "premature_end"),
        ("RateLimitError: try again in 20 s", "crash"),
        ("429: rate limit reached", "crash"),
        ("rate_limit_exceeded", "crash"),
        (None, "crash"),
    ],
)
def test_a_limit_of_turns_is_no_crash_and_one_of_rate_is(reason, label):
    log = EventLog()
    log.append(event(["user", "Go."]))
    log.end("failed", reason)
    names = [r.detector for r in detect(Episode(log)) if r.findings]
    assert names == [label]


@pytest.mark.parametrize(
    ("text", "early"),
    [
        ("I will now look at annex B.", True),
        ("The board is in annex B. Let me open it.", True),
        ("I'm going to check the second file.", True),
        ("Now searching the archive.", True),
        ("The members are:", True),
        ("接下来我会查询附件。", True),
        ("I am looking into it.", True),
        ("Opening annex B now.", True),
        ("The next step is to open annex B.", True),
        ("I should check annex B.", True),
        ("Searching...", True),
        ("Tell me the date and I will book it.", False),
        ("We will ship it on Tuesday.", False),
        ("I am waiting for your reply.", False),
        ("Opening it is forbidden.", False),
        ("The members are Ana and Bo.", False),
        ("Let me know if you need more.", False),
        ("If you like, I will book it.", False),
        ("Shall I open annex B?", False),
        ("The reminder is set; I will remind you at 9.", False),
        ("The train is going to Oslo.", False),
        ("I will need the date from you first.", False),
        ("I will not open annex B, since it is private.", False),
        ("Job 5 is in progress.", False),
        ("Let me look. Here it is: the fax is 12.", False),
    ],
)
def test_a_promise_is_no_answer(text, early):
    assert ("premature_end" in found(("user", "The fax is 12. Who?"), ("say", text))) is early


@pytest.mark.parametrize(
    ("why", "events", "state", "early"),
    [
        ("an open call", [("say", "Let me search."), ("call", "c", "s", {})], "completed", True),
        ("one of two calls open", [*steps(("t", {}, "x")), ("call", "a", "s", {})], "completed", True),
        ("a result and no word", steps(("s", {}, "annex B has them all")), "completed", True),
        ("nothing at all", [], "completed", True),
        ("an interruption", [("call", "c", "s", {})], "interrupted", True),
        ("a person's doing", [("call", "c", "s", {})], "cancelled", False),
        ("still running", [("call", "c", "s", {})], "running", False),
        ("an answer by a tool", steps(("finish", {"answer": "42"}, "ok")), "completed", False),
        ("put away after the answer", [("say", "It is 42."), *steps(("save", {"n": 42}, "ok"))], "completed", False),
        ("rewarded after the answer", [("say", "It is done."), ("turn", 4)], "completed", False),
    ],
)  # fmt: skip
def test_a_run_without_an_answer_ended_early(why, events, state, early):
    log = EventLog()
    for one in [("user", "Who? 42?"), *events]:
        log.append(event(list(one)))
    if state != "running":
        log.end(state)
    names = {r.detector for r in detect(Episode(log)) if r.findings}
    assert ("premature_end" in names) is early, why


def test_what_the_recorder_adds_after_an_answer_takes_nothing_from_it():
    timed = {"kind": "observation", "input": {"status": "null"}, "output": {"status": "value", "value": {"ms": 5500}}}
    log = EventLog()
    for one in [event(["user", "The fax?"]), timed, event(["say", "It is 12."]), timed]:
        log.append(one)
    log.end("completed")
    results = {r.detector: [f.seqs for f in r.findings] for r in detect(Episode(log)) if r.findings}
    assert results == {"unsupported_answer": [(2,)]}


def test_a_log_that_says_neither_answer_nor_end_is_not_judged():
    result = said("premature_end", ("user", "Go."), *steps(("s", {}, "x")), state="unknown")
    assert result.not_applicable == "the log says neither what the agent answered nor how the run ended"


def test_an_answer_that_is_kept_beside_the_log_is_an_answer():
    assert found(("user", "Go."), *steps(("s", {}, "annex B")), answered="It is in annex B.") == {}


# ---- answers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("why", "result", "answer", "unsupported"),
    [
        ("said", {"price": 49.9}, "It costs 49.90.", False),
        ("not said", {"stock": 4}, "It costs 49.90.", True),
        ("a year", "The bridge crosses the river.", "It was opened in 1859.", True),
        ("a sum", {"a": 12, "b": 30}, "Together 42.", False),
        ("a wrong sum", {"a": 12, "b": 30}, "Together 43.", True),
        ("a mean", [{"t": 3}, {"t": 4}, {"t": 8}], "On average 5.", False),
        ("a sum of a column", [{"t": 3}, {"t": 4}, {"t": 8}, {"t": 20}], "In total 35.", False),
        ("a share", {"passed": 3, "all": 8}, "38 % passed, or 37.5 percent.", False),
        ("a wrong share", {"passed": 3, "all": 8}, "71 % passed.", True),
        ("a rounding", "it takes 12.3456 s", "It takes 12.35 s.", False),
        ("a rough figure", {"n": 1987}, "There are about 2000.", False),
        ("a figure that is not rough", {"n": 1987}, "There are 2000.", True),
        ("thousands", {"n": 1234567}, "There are 1,234,567, or 1.2 million.", False),
        ("a count", ["x", "y", "z"], "There are three of them.", False),
        ("a wrong count", ["x", "y", "z"], "There are nine of them.", True),
        ("hours of minutes", {"minutes": 90}, "It takes 1.5 hours.", False),
        ("a list with numbers", "red and blue", "1. red\n2. blue", False),
        ("a date in another form", {"on": "2026-06-02"}, "It is on 2 June 2026.", False),
        ("a name", "the author is not known", "It was written by George Eliot.", True),
        ("a name that was said", "novel by george eliot", "It was written by George Eliot.", False),
        ("a person's name in front", "the chair is vacant", "Anna Keller chairs the board.", True),
        ("a name before a verb", "the author is not known", "Eliot wrote it.", True),
        ("a name after a title", "the chair is taken", "The chair is Mr. Brown.", True),
        ("a day", "it opens next week", "It opens on Thursday.", True),
        ("a day of a date", "it opens on 2026-06-04", "It opens on Thursday.", False),
        ("an answer in metres", "the hall is 5 m high", "It is 5 m high.", False),
        ("a plural", "valve V-12 leaks", "The V-12 leaks.", False),
        ("an identifier", "valve V-12 leaks", "Valve V-13 leaks.", True),
        ("a file", "see the report", "It is in report_final.pdf.", True),
        ("a file that was said", "/srv/report_final.pdf", "It is in report_final.pdf.", False),
        ("a letter", "it is in hall B", "It is in hall C.", True),
        ("a quotation", "the motto is lost", 'The motto is "Nothing without labour".', True),
        ("only words", "no lock on it", "I could not find any lock there.", False),
        ("currencies and units", {"price": 20}, "It costs 20 EUR, VAT included.", False),
        ("a title", "red", "## Summary\n\n**Result**: Red.", False),
    ],
)
def test_an_answer_rests_on_what_was_said(why, result, answer, unsupported):
    events = asked("What about it?", ("lookup", q("it"), result), answer=answer)
    assert ("unsupported_answer" in found(*events)) is unsupported, why


def test_an_answer_without_any_look_is_unsupported_only_where_there_was_something_to_look_with():
    events = [("user", "What does the kettle cost?"), ("say", "It costs 49.90.")]
    assert found(*events, tools=LOOKUP) == {"unsupported_answer": [(1,)]}
    assert said("unsupported_answer", *events).not_applicable == "the log has nothing that the answer could rest on"


def test_what_the_case_gave_the_agent_carries_its_answer():
    events = [*steps(("lookup", q("it"), "in stock")), ("say", "It costs 49.90.")]
    assert "unsupported_answer" in found(*events)
    assert found(*events, asked=["The kettle costs 49.90. Is it there?"]) == {}


# ---- budgets ---------------------------------------------------------------------------------------------------------


def test_calls_and_tokens_beyond_the_budget_are_named():
    events = [*asked("Go.", *[("r", {"n": n}, f"t{n}") for n in range(4)]), ("turn", 900), ("turn", 50), ("turn", 60)]
    results = said("budget_blowup", *events, budget=Budget(calls=2, tokens=1000))
    assert [(f.seqs, f.limit, f.name) for f in results.findings] == [
        ((5, 7), "calls=2", "budget_blowup.1/5-7/calls=2"),
        ((12,), "tokens=1000", "budget_blowup.1/12-12/tokens=1000"),
    ]
    assert said("budget_blowup", *events, budget=Budget(calls=4, tokens=1010)).status == "clean"
    assert said("budget_blowup", *events).not_applicable == "no budget is stated"
    without = said("budget_blowup", *events[:-3], budget=Budget(tokens=10))
    assert without.not_applicable == "the log does not say how many tokens were used"


def test_tokens_of_models_count_where_no_turn_states_any():
    log = EventLog()
    for _ in range(3):
        used = {"usage": {"input_tokens": 40, "output_tokens": 10}}
        log.append({**event(["say", "ok"]), "model": {"name": "m"}, "attributes": used})
    result = next(r for r in detect(Episode(log, budget=Budget(tokens=100))) if r.detector == "budget_blowup")
    assert [f.reason for f in result.findings] == ["150 tokens, of 100 that were allowed"]


def test_an_empty_log_is_never_clean():
    log = EventLog()
    log.end("unknown")
    assert {result.status for result in detect(Episode(log))} == {"not_applicable"}


def test_each_detector_has_a_name_of_its_own_and_says_its_rule():
    assert len({detector.name for detector in DETECTORS}) == len(DETECTORS) == 11
    assert all(detector.rule.endswith(".") and detector.version >= 1 for detector in DETECTORS)
