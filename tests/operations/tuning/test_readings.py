"""Texts are read in one form; what is encoded is decoded, and what only looks so is left alone."""

import base64
import json

import pytest

from operations.tuning.readings import form_of, forms_of, plain_text

SAID = "The blue vase is broken, 12 of them"
PLAIN = "thebluevaseisbroken12ofthem"


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("Crème Brûlée", "cremebrulee"),
        ("Straße", "strasse"),
        ("\u0661\u0662 \uff12 \u2461", "1222"),
        ("\u0420\u0430\u0443", "pay"),
        ("\ud55c\uad6d\uc5b4", "\ud55c\uad6d\uc5b4"),
        ("a%20b", "ab"),
        ("100% sure", "100sure"),
        ("?!", "?!"),
        ("", ""),
    ],
)
def test_letters_and_digits_have_one_form(text, plain):
    assert plain_text(text) == plain


def test_a_value_has_the_forms_of_the_whole_of_its_texts_and_of_what_they_hide():
    hidden = base64.urlsafe_b64encode(SAID.encode()).decode()
    assert forms_of({"b": f"<i>x</i> {hidden}", "a": ["y", "!"]})[:4] == [
        f"yixi{plain_text(hidden)}", "y", "!", f"ixi{plain_text(hidden)}"
    ]  # fmt: skip
    assert PLAIN in forms_of(hidden)
    assert PLAIN in forms_of(base64.b64encode(SAID.encode("utf-16-le")).decode())
    assert PLAIN in forms_of(json.dumps({"at": hidden}))
    assert PLAIN in forms_of(f"0x {SAID.encode().hex(' ')}")


@pytest.mark.parametrize(
    "text",
    [
        "/usr/local/lib/python3.11/site-packages/operations/trajectories/detectors/outcomes",
        base64.b64encode(bytes(range(256))).decode(),
        "0123456789abcdef" * 8,
        "A" * 200,
    ],
)
def test_what_only_looks_encoded_is_read_as_it_stands(text):
    assert set(forms_of(text)) == {form_of(text)}


@pytest.mark.parametrize("text", ["\\" * 200_000, "<a" * 100_000, "&" * 200_000, "ab " * 70_000, "[" * 100_000])
def test_a_hostile_text_is_read_in_one_go(text):
    assert forms_of(text)[0] == form_of(text)
