"""A holdout Case is known again by its names, its origin and its text, and nothing else is taken for one."""

import pytest

from operations.tuning.holding_out import WITHIN, HeldOut, Names, parts_in, parts_of
from operations.tuning.readings import form_of, leaves_of, plain_text
from tests.support.disguises import HOLDOUT, WRAPPED, WRITTEN

LONG = [case_id for case_id, value in HOLDOUT.items() if len(form_of(value)) >= 2 * WITHIN]


def held():
    found = HeldOut()
    for case_id, value in HOLDOUT.items():
        names = [
            Names(case_id=case_id, fingerprint=f"print of {case_id}", source_group=f"group of {case_id}"),
            Names(record_id=f"batch-1.{case_id}", trace=("prod", case_id), session=("prod", f"s-{case_id}")),
        ]
        found.add(names, [value], leaves_of({"lang": "en"}))
    return found


def test_there_are_enough_disguises():
    assert LONG == ["blind-1", "blind-2", "blind-3"]
    assert len(HOLDOUT) * len(WRITTEN) + len(LONG) * len(WRAPPED) + 6 * len(HOLDOUT) >= 100


@pytest.mark.parametrize("case_id", HOLDOUT)
@pytest.mark.parametrize("name", WRITTEN)
def test_an_input_that_is_written_otherwise_is_known(case_id, name):
    assert held().why([], [WRITTEN[name](HOLDOUT[case_id])], []) is not None


@pytest.mark.parametrize("case_id", LONG)
@pytest.mark.parametrize("name", WRAPPED)
def test_an_input_within_others_or_in_parts_is_known_wherever_it_is_said(case_id, name):
    given = WRAPPED[name](HOLDOUT[case_id])
    assert held().why([], [given], []) is not None
    assert held().why([], [], ["something else", given]) is not None


@pytest.mark.parametrize("case_id", HOLDOUT)
@pytest.mark.parametrize(
    "name",
    [
        lambda c: Names(case_id=c),
        lambda c: Names(fingerprint=f"print of {c}"),
        lambda c: Names(source_group=f"group of {c}"),
        lambda c: Names(record_id=f"batch-1.{c}"),
        lambda c: Names(trace=("prod", c)),
        lambda c: Names(session=("prod", f"s-{c}")),
    ],
)
def test_any_name_of_it_is_known(case_id, name):
    assert held().why([Names(case_id="other"), name(case_id)], ["nothing of it"], []) is not None


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("Is the parcel to Lyon on its way?", []),
        ({"question": "Which tariff is that?", "lang": "en"}, ["en"]),
        ("quux 18?", ["quux 17"]),
        ("", [None, True, {}, []]),
        ("blind-1", ["the vase", "broken"]),
    ],
)
def test_what_only_shares_words_or_short_texts_is_no_holdout(asked, said):
    names = Names(case_id="usual", source_group="g", trace=("dev", "blind-1"), session=("prod", "blind-1"))
    assert held().why([names], [asked], said) is None


def test_a_text_that_all_cases_share_tells_nothing():
    """Cases of one template differ in one field, and the other is told to all."""
    template = "Answer the question of the customer in one sentence."
    found = HeldOut()
    found.add([], [{"do": template, "q": "Where is it?"}], leaves_of({"do": template, "q": "Who are you?"}))
    assert found.why([], [{"do": template, "q": "Who are you?"}], [template]) is None
    assert found.why([], [{"do": template, "q": "Where is it?"}], []) is not None
    assert found.why([], ["Where is it?"], []) is not None


def test_a_text_without_letters_is_compared_as_it_is():
    found = HeldOut()
    found.add([], ["?!?"])
    assert plain_text(" ?!? ") == "?!?"
    assert found.why([], [" ?!? "], []) is not None
    assert found.why([], ["!?!"], []) is None


def test_what_was_said_piece_by_piece_is_read_as_one_text():
    text = str(HOLDOUT["blind-1"])
    pieces = [text[at : at + 5] for at in range(0, len(text), 5)]
    assert held().why([], [], pieces) is not None
    assert held().why([], [], pieces[: len(pieces) // 3]) is None


def test_a_part_of_an_input_is_known_among_others_unless_all_cases_share_it():
    told = "You are the clerk of the water works of the town and answer in one sentence."
    other = "Who reads the meter of the neighbour when he is away?"
    inside = f"They asked: {(told + other)[5:90]} and left."
    found, usual = HeldOut(), HeldOut()
    found.add([], [told + other])
    usual.add([], [told + other], parts_in(plain_text(f"{told} Where?"), set(parts_of(plain_text(told)))))
    assert found.why([], [], [inside]) is not None
    assert usual.why([], [], [f"{told} Is it raining?"]) is None
    assert usual.why([], [], [told + other]) is not None


def test_a_long_answer_that_is_expected_of_a_holdout_alone_is_known():
    found = HeldOut()
    found.add([], ["Who pays?"], answers=[plain_text("The sender pays, unless the carrier admits it."), "nobody"])
    assert found.why([], [], ["So: the sender pays unless the carrier admits it!"]) == (
        "it holds the expected answer of a holdout Case"
    )
    assert found.why([], [], ["nobody"]) is None


def test_a_file_of_a_holdout_that_asks_nothing_else_is_known():
    waybill = "Waybill 77: one crate from Dijon to Lyon, sealed at the depot, kept upright."
    held = HeldOut()
    held.add([Names(case_id="b")], [None])
    held.add_attached([waybill])
    assert held.why([], ["What do you see?"], [f"I read: {waybill[:70]}"]) == (
        "it holds the input of a holdout Case, or a part of it"
    )
    assert held.why([], ["What do you see?"], ["a blue vase and nothing more to be told of"]) is None
