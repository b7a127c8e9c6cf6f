"""The sieve never passes a row that masking would change."""

import json

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operations.importers._json_values import dumps
from operations.importers._sieve import Sieve
from storage.masking import Masker

REDACT = ("patient_id", "Kunde Nr")
MASKER = Masker(b"k" * 32, REDACT)

SECRETS = (
    "ghp_" + "a1B2" * 9,
    "sk-proj-abc123DEF456ghi789",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcDEF123",
    "AKIA1234567890ABCDEF",
    "xoxb-1234567890-abcdef",
    "AIza" + "Sy9" * 12,
    "glpat-abcdefgh12345678",
    "sk_live_abcdefghij0123",
    "hf_" + "aB3" * 11,
    "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----",
    "Bearer abc123def456",
    "basic dXNlcjpwYXNzd29yZA==",
    "https://user:hunter22@host/x",
    "PASSWORD=swordfish9",
    "the token: abc123def",
    "x-api-key: abcdef123456",
    "Authorization: Basic dXNlcjpwYXNz",
    "https://hooks.slack.com/services/T0000/B0000/abcdefghijkl",
)
NAMES = (
    "password", "db_password2", "apiKey", "API_KEY", "x-api-key", "githubToken", "token", "accessToken",
    "session token",
    "clientSecret", "Cookie", "authorization", "private key", "patient_id", "patientId", "kunde nr", "user_pwd",
    "total_token", "time_to_first_token", "maxToken", "secretary", "monkey", "key", "name", "note", "keys", "tokens",
)  # fmt: skip

texts = st.one_of(
    st.text(max_size=20),
    st.sampled_from(SECRETS),
    st.tuples(st.text(max_size=5), st.sampled_from(SECRETS), st.text(max_size=5)).map("".join),
    st.tuples(st.sampled_from(NAMES), st.sampled_from((": ", "=", '": "', " ")), st.text(max_size=12)).map("".join),
)
names = st.one_of(st.sampled_from(NAMES), st.text(max_size=8))


def nested(children):
    plain = st.one_of(st.lists(children, max_size=3), st.dictionaries(names, children, max_size=3))
    return st.one_of(plain, plain.map(json.dumps), plain.map(lambda v: json.dumps(v, indent=1)))


values = st.recursive(st.one_of(st.none(), st.integers(-9, 9), st.booleans(), texts), nested, max_leaves=8)
rows = st.dictionaries(names, values, max_size=4)


@settings(max_examples=400, deadline=None)
@given(rows, st.sampled_from(("orjson", "ascii", "spaced")))
def test_what_masking_would_change_is_never_passed(row, form):
    raw = {
        "orjson": lambda: dumps(row),
        "ascii": lambda: json.dumps(row, separators=(",", ":")).encode(),
        "spaced": lambda: json.dumps(row, ensure_ascii=False).encode("utf-8", "surrogatepass"),
    }[form]()
    if Sieve(REDACT).clean(raw):
        assert MASKER.value(row) == row


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("wrap", [str, json.dumps, lambda text: json.dumps({"a": json.dumps({"b": text})})])
def test_every_known_secret_is_seen_however_deep_it_lies(secret, wrap):
    sieve = Sieve()
    assert not sieve.clean(orjson.dumps({"input": wrap(f"say\n{secret} now")}))
    assert not sieve.clean(orjson.dumps({"input": wrap(f"say\n{secret} now")}))  # nor once its words are known


def test_an_address_with_a_long_name_and_a_password_is_seen():
    row = {"input": "https://" + "é" * 200 + ":hunter22@host/x"}
    assert MASKER.value(row) != row
    assert not Sieve().clean(dumps(row))


def test_a_row_of_a_usual_export_is_passed():
    row = {"id": "0a1b" * 8, "time_to_first_token": 0.1, "usage": {"total_token": 3}, "output": "Ask the secretary."}
    sieve = Sieve()
    assert sieve.clean(orjson.dumps({**row, "output": "The order was late."}))
    assert not Sieve(("order",)).clean(orjson.dumps({"order": 1}))
    assert not Sieve(("患者",)).clean(orjson.dumps({"note": 1}))


OWN = Masker(b"k" * 32, (), (r"CUST-[0-9]{3}", r"\bab+c\b", "é1", r"a\sb", "[0-9]{9}"))
said = st.one_of(st.sampled_from(("CUST-123", "xabbc", "abc", "é1", "a\nb", "a b", "CUST-12")), st.text(max_size=6))
told = st.recursive(
    st.one_of(said, st.integers(0, 10**10), st.tuples(said, said).map("".join)),
    lambda inner: st.one_of(nested(inner), st.dictionaries(said, inner, max_size=2)),
    max_leaves=5,
)


@given(st.dictionaries(said, told, max_size=3))
@settings(deadline=None)
def test_a_row_that_passes_holds_nothing_that_a_projects_pattern_matches(row):
    if Sieve((), OWN.patterns).clean(dumps(row)):
        assert OWN.value(row) == row
