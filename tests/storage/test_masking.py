"""Masking: every planted credential goes, everything harmless stays, and nothing is masked twice."""

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.masking import (
    MASK,
    MaskedText,
    Masker,
    MaskingKeyDamaged,
    MaskingKeyExists,
    count_masks,
    create_key,
    has_mask,
    load_key,
)

MASKER = Masker(b"k" * 32)

# Every sample is put together from halves, so that no scanner takes this file for a leak.
SECRETS = {
    "aws": "AKIA" + "Z7Q4XEXAMPLE3JTP",
    "github": "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
    "github_fine": "github_pat_" + "11ABCDEFG0abcdefghij_klmnopqrstuvwxyz0123456789",
    "openai": "sk-" + "proj-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCd",
    "anthropic": "sk-" + "ant-api03-abCD1234efGH5678-ijKL_mnOP90qrST",
    "slack": "xoxb-" + "123456789012-123456789012-AbCdEfGhIjKlMnOpQrStUvWx",
    "jwt": "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiJ0ZXN0In0." + "c2lnbmF0dXJlLXRoYXQtaXMtZmFrZQ",
    "gitlab": "glpat-" + "abcDEF123456ghiJKL78",
    "google": "AIza" + "SyA1234567890abcdefghijklmnopqrstuv",
    "stripe": "sk_" + "live_abcdEFGH1234ijkl",
    "hugging_face": "hf_" + "abcdefghijklmnopqrstuvwxyzABCDEFGH",
    "pem": "-----BEGIN " + "PRIVATE KEY-----\nMIIBVgIBADANBgkqhkiG9w0BAQEFAASCAUAwggE8\n-----END " + "PRIVATE KEY-----",
    "pem_cut_short": "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIBVgIBADANBgkqhkiG9w0BAQEFAASCAUAwggE8\n",
}

PLANTED = {
    "header": ({"headers": {"Authorization": "Bearer " + "abcdef0123456789abcdef"}}, "abcdef0123456789abcdef"),
    "cookie": ({"Cookie": "session=" + "c0ffee" * 6}, "c0ffee"),
    "set_cookie": ({"set-cookie": "sid=31d4d96e407aad42"}, "31d4d96e407aad42"),
    "api_key_header": ({"X-Api-Key": "plain-words-only"}, "plain-words-only"),
    "camel_case": ({"clientSecret": "swordfish"}, "swordfish"),
    "with_prefix": ({"DB_PASSWORD": "swordfish"}, "swordfish"),
    "with_number": ({"password2": "swordfish"}, "swordfish"),
    "token": ({"token": "abc123"}, "abc123"),
    "github_token": ({"githubToken": "swordfish"}, "swordfish"),
    "refresh_token": ({"refresh_token": "r"}, '"r"'),
    "in_a_list": ({"passwords": ["swordfish", "mackerel"]}, "mackerel"),
    "in_an_object": ({"secret": {"value": "swordfish"}}, "swordfish"),
    "name_and_value": ({"name": "password", "value": "swordfish"}, "swordfish"),
    "key_and_value": ({"key": "api_key", "value": {"stringValue": "swordfish"}}, "swordfish"),
    "pair": ([["Authorization", "Basic2 c3dvcmQ6ZmlzaA"]], "c3dvcmQ6ZmlzaA"),
    "as_a_key": ({SECRETS["github"]: 1}, SECRETS["github"]),
    "json_in_text": (json.dumps({"password": "swordfish"}), "swordfish"),
    "json_in_json_in_text": ({"output": json.dumps({"a": json.dumps({"api_key": "swordfish"})})}, "swordfish"),
    "json_in_prose": ('it said {"password": "swordfish", "n": 1} twice', "swordfish"),
    "json_cut_short": ('{"a": 1, "password": "sword fish and', "fish"),
    "escaped_json_in_prose": (r"it said {\"password\": \"swordfish\"} twice", "swordfish"),
    "json_with_a_key_twice": ('{"password": "swordfish", "password": ""}', "swordfish"),
    "python_repr": ("{'password': 'swordfish'}", "swordfish"),
    "env_file": ("PATH=x\nDB_PASSWORD=swordfish\n", "swordfish"),
    "shell": ("export api_key=sword-fish && run", "sword-fish"),
    "query": ("https://example.org/?access_token=swordfish&page=2", "swordfish"),
    "prose": ("log in with password: hunter2-correct, then", "hunter2"),
    "curl": ("curl -H 'X-Api-Key: hunter2-correct' https://example.org", "hunter2"),
    "curl_user": ("curl -sS -u app:hunter2-correct https://example.org", "hunter2"),
    "curl_user_quoted": (json.dumps({"cmd": 'curl --user "app:hunter2-correct" x'}), "hunter2"),
    "key_after_a_hyphen": ("t-sk-proj-AbCdEfGhIjKlMnOp0123456789", "AbCdEfGhIjKlMnOp"),
    "header_line": ("GET / HTTP/1.1\r\nCookie: sid=swordfish; b=2\r\n", "swordfish"),
    "authorization_line": ("Authorization: Digest 0a1b2c3d", "0a1b2c3d"),
    "basic": ("Authorization: Basic " + "dXNlcjpzd29yZGZpc2g=", "dXNlcjpzd29yZGZpc2g"),
    "bearer": ("sent Bearer " + "abcdef0123456789", "abcdef0123456789"),
    "url": ("postgres://app:S3cr3t-Pa55@db.example.org/x", "S3cr3t-Pa55"),
    "url_with_an_at_sign": ("amqp://app:p@ss@db.example.org/x", "p@ss"),
} | {name: (f"here: {secret} !", secret) for name, secret in SECRETS.items()}

HARMLESS = [
    {"max_tokens": 4096, "token_count": 12, "prompt_tokens": 5, "total_token": 42, "tokens": ["a", "b"]},
    {"total_token": "1234567", "next_page_token": "CAUQAA12345", "eos_token": "<|endoftext|>", "pad_token": "[PAD]12"},
    {"token": " the"},
    {"token": "world"},
    {"token": "two words 123"},
    {"token": 123456, "password": True, "secret": None, "cookie": 7},
    {"password": ""},
    {"password_reset_sent": True, "password_policy": "twelve characters", "cookie_policy": "ok"},
    {"author": "x", "keyboard": "qwerty", "secretary": "Ann", "monkey": "m", "tokenizer": "bpe", "key": "value"},
    {"sha": "da39a3ee5e6b4b0d3255bfef95601890afd80709", "uuid": "123e4567-e89b-12d3-a456-426614174000"},
    {"password_hash": "da39a3ee5e6b4b0d3255bfef95601890afd80709", "secret_id": "s-1", "api_key_id": "k-1"},
    {"properties": {"password": {"type": "string", "description": "The user's password"}}, "required": ["password"]},
    {"name": "Ann", "value": "swordfish"},
    ["secret", "tell"],
    "the secret: tell nobody",
    "secretary: Ann-2 total_token: 42 max_tokens=4096 token_count=12345678",
    "def login(password=entered, token=tokenizer.next()):",
    "if password == expected123: return self.secret",
    "password = getpass.getpass1()",
    "password=${DB_PASSWORD} token=$TOKEN secret={{ vault1.secret1 }} https://u:$PASS@example.org",
    "docker run -u 1000:1000 x; ps -u root:wheel",
    "curl -u $USER:$PASS https://example.org",
    "basic understanding, Bearer authentication, the bearer of news",
    "sk-learn, sk-SK, task-1234567890123456, sk-a-long-hyphenated-name-of-things",
    "https://example.org:8080/a@b and mailto:ann@example.org, 12:30@noon",
    "eyJ is how a JSON object begins; AKIA is a prefix; ghp_ too; xoxo-hugs",
    "-----BEGIN CERTIFICATE-----\nMIIBVgIBADANBgkqhkiG9w0BAQEFAASCAUAwggE8\n-----END CERTIFICATE-----",
    "commit da39a3ee5e6b4b0d3255bfef95601890afd80709, digest sha256:" + "0f" * 32,
    '{"a": 1.10, "b":  [1e5]}',
    "[not json",
    '"quoted',
    "{" * 5000,
    "",
    " ",
    "\ud800 lone",
    "7" * 5000,
    7,
    1.5,
    None,
    True,
    float("nan"),
]


@pytest.mark.parametrize(("value", "secret"), PLANTED.values(), ids=PLANTED)
def test_planted_secret_is_masked(value, secret):
    masked = json.dumps(MASKER.value(value))
    assert json.dumps(secret)[1:-1] not in masked
    assert has_mask(masked)
    assert MASKER.changed(value)


@pytest.mark.parametrize("value", HARMLESS, ids=lambda value: repr(value)[:40])
def test_harmless_value_stays_as_it_is(value):
    masked = MASKER.value(value)
    assert repr(masked) == repr(value)
    assert not MASKER.changed(value)


def test_one_secret_has_one_mask_wherever_it_stands():
    secret = SECRETS["github"]
    mask = MASKER.mask(secret)
    assert mask.startswith("[masked:github:")
    assert MASKER.text(f"use {secret}.") == f"use {mask}."
    assert MASKER.value({"password": secret, "Authorization": f"Bearer {secret}"}) == {
        "password": mask,
        "Authorization": f"Bearer {mask}",
    }
    assert MASKER.text("password='hunter2x'")[10:-1] == MASKER.value({"api_key": "hunter2x"})["api_key"]
    assert MASKER.text("amqp://a:hunter2x@h")[9:-2] == MASKER.mask("hunter2x")


def test_masks_differ_between_secrets_and_between_keys():
    assert MASKER.mask("one") != MASKER.mask("two")
    assert MASKER.mask("one") != Masker(b"x" * 32).mask("one")


def test_mask_shows_its_kind_and_eight_digits_of_the_keyed_hash():
    assert MASKER.value({"password": "hunter2"}) == {"password": "[masked:credential:f6c2ff60]"}
    assert count_masks(MASKER.text(f"{SECRETS['aws']} {SECRETS['aws']} password='hunter2'")) == {
        "aws": 2,
        "credential": 1,
    }


def test_json_in_text_keeps_its_numbers_and_order_when_a_field_is_masked():
    masked = MASKER.text('{"b":1,"password":"x","a":[12345678901234567890,true,null]}')
    assert MASK.sub("*", masked) == '{"b":1,"password":"*","a":[12345678901234567890,true,null]}'


def test_fields_named_by_the_project_are_masked_whatever_they_hold():
    masker = Masker(b"k" * 32, ["customerName", "ssn", "…"])
    masked = masker.value({"customer_name": "Ann", "SSN": 123, "ssn": {"a": [True, None]}, "customer_names": "B"})
    assert has_mask(masked["customer_name"])
    assert has_mask(masked["SSN"])
    assert has_mask(masked["ssn"]["a"][0])
    assert masked["ssn"]["a"][1] is None
    assert masked["customer_names"] == "B"
    assert "Ann" not in masker.text("customer_name: Ann Lee")
    assert "Lee" not in masker.text("customer_name: Ann Lee")
    assert "Ann" not in masker.text("say {'customerName': 'Ann'}")


def test_text_is_of_the_type_that_the_store_takes():
    assert isinstance(MASKER.text("x"), MaskedText)
    assert isinstance(MASKER.value(["x"])[0], MaskedText)


fragments = st.sampled_from(
    [value if isinstance(value, str) else json.dumps(value) for value, _ in PLANTED.values()]
    + [
        "password",
        '"',
        ":",
        "=",
        "{",
        "}",
        "[",
        "]",
        "\\",
        " ",
        "\n",
        "[masked:",
        "[masked:secret:0123abcd]",
        "://",
        "@",
    ]
)
texts = st.lists(st.one_of(fragments, st.text(max_size=8)), max_size=8).map("".join)
documents = st.recursive(
    st.one_of(texts, st.integers(), st.booleans(), st.none()),
    lambda below: st.one_of(
        st.lists(below, max_size=3), st.dictionaries(st.one_of(texts, fragments), below, max_size=3)
    ),
    max_leaves=8,
)


@given(texts)
def test_masking_text_twice_is_masking_it_once(text):
    once = MASKER.text(text)
    assert MASKER.text(once) == once


@given(documents)
def test_masking_a_document_twice_is_masking_it_once(document):
    once = MASKER.value(document)
    assert MASKER.value(once) == once


@given(st.sampled_from(sorted(SECRETS)), st.text(max_size=20), st.text(max_size=20))
def test_token_between_spaces_is_found_in_any_text(name, before, after):
    secret = SECRETS[name]
    assert secret not in MASKER.text(f"{before} {secret} {after}")


def test_key_is_made_once_and_read_back(tmp_path):
    path = str(tmp_path / "masking.key")
    key = create_key(path)
    assert len(key) == 32
    assert load_key(path) == key
    assert os.stat(path).st_mode & 0o777 == 0o600
    with pytest.raises(MaskingKeyExists):
        create_key(path)
    assert load_key(path) == key


@pytest.mark.parametrize(
    ("content", "reason"), [(b"x" * 31, "31 bytes"), (b"", "0 bytes"), (b"x" * 33, "more than 32")]
)
def test_key_of_another_length_is_refused(tmp_path, content, reason):
    path = tmp_path / "masking.key"
    path.write_bytes(content)
    with pytest.raises(MaskingKeyDamaged, match=reason):
        load_key(str(path))


def test_missing_linked_or_special_key_is_refused(tmp_path):
    (tmp_path / "real").write_bytes(b"x" * 32)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    os.mkfifo(tmp_path / "fifo")
    for name in ("absent", "link", "fifo", "."):
        with pytest.raises(MaskingKeyDamaged):
            load_key(str(tmp_path / name))
