"""Which texts are keys of providers; the keys here are made up, and written so that no scanner takes them."""

from typing import Final
from zlib import crc32

import pytest

from mcpproxy.gate.enforce.policy import enforceable_rules
from mcpproxy.judge.checks.opt_in.credentials import credentials_in
from mcpproxy.judge.checks.security.secrets import FAMILY, FORMS, secrets_in
from mcpproxy.judge.ruleset import ruleset
from mcpproxy.judge.session.frame import Stderr
from mcpproxy.judge.session.history import History

RANDOM: Final = "Zr4kQ9vN2mX7bT1wLs8Yd3HcPf6GjUa5RtE0KiMoWnV"
HEXADECIMAL: Final = "3f8a1c92b7d04e65a2c1f09b8d7e6453"
DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def with_checksum(prefix: str, text: str) -> str:
    number, digits = crc32(text.encode()), ""
    for _ in range(6):
        number, digit = divmod(number, 62)
        digits = DIGITS[digit] + digits
    return prefix + text + digits


GRAFANA: Final = "gl" + "sa_" + RANDOM[:32]

KEYS: Final = {
    "a GitHub token": with_checksum("gh" + "p_", RANDOM[:30]),
    "an npm token": with_checksum("np" + "m_", RANDOM[10:40]),
    "a Grafana token": f"{GRAFANA}_{crc32(GRAFANA.encode()).to_bytes(4, 'little').hex()}",
    "a GitLab token": "gl" + "pat-" + RANDOM[:20],
    "a Slack token": "xo" + "xb-902835761284-8035721946380-" + RANDOM[:24],
    "an Anthropic key": "sk-" + "ant-api03-" + (RANDOM * 3)[:93] + "AA",
    "an OpenAI key": "sk-" + "proj-" + RANDOM[:30] + "T3Blbk" + "FJ" + RANDOM[:30],
    "a Stripe key": "sk_" + "live_" + RANDOM[:24],
    "a SendGrid key": "S" + "G." + RANDOM[:22] + "." + RANDOM[:43],
    "a PyPI token": "py" + "pi-AgEIcHlwaS5vcmc" + RANDOM + RANDOM,
    "a Hugging Face token": "h" + "f_" + "qWeRtYuIoPaSdFgHjKlZxCvBnMqWeRtYuI",
    "a DigitalOcean token": "do" + "p_v1_" + HEXADECIMAL * 2,
    "a Shopify token": "shp" + "at_" + HEXADECIMAL,
    "a private key": "-----BEGIN RSA "
    + "PRIVATE KEY-----\n"
    + RANDOM * 4
    + "\n-----END RSA PRIVATE KEY-----",
}

DOCUMENTED: Final = (
    "gh" + "p_zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ0mLq17",
    "gh" + "p_adE7dp8rHP6gUTuPwxLTZjZdtya3sV0UQzQM",
    "gh" + "o_16C7e42F292c6912E7710c838347Ae178B4a",
    "gl" + "sa_yscW25imSKJIuav8zF37RZmnbiDvB05G_fcaaf58a",
    "gl" + "sa_HOruNAb7SOiCdshU9algkrq7FDsNSLAa_54e2f8be",
    "xo" + "xb-17653672481-19874698323-pdFZKVeTuE8sk7oOcBrzbqgy",
    "sk_" + "live_4eC39HqLyjWDarjtT1zdp7dc",
    "sk_" + "test_26PHem9AhJZvU623DfE1x4sd",
    "S" + "G.ngeVfQFYQlKU0ufo8x5d1A.TwL2iGABf9DHoTf-09kqeF8tAmbihYzrnopKc-1s5cr",
    "-----BEGIN "
    + "PRIVATE KEY-----\n"
    + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n"
    + RANDOM * 4
    + "\n-----END PRIVATE KEY-----",
)
"""Keys in the documents of the providers. Two of GitHub and two of Grafana have a right checksum."""


@pytest.mark.parametrize("kind", KEYS)
def test_a_key_is_found_within_a_text(kind: str) -> None:
    key = KEYS[kind]
    for text in (key, f"The key is {key}.", f'{{"key": "{key}"}}', f"https://example.test/?key={key}&b=1"):
        ((found, value),) = secrets_in(text)
        assert (found, value.rstrip("-")) == (kind, value.rstrip("-"))
        assert key.startswith(value)


@pytest.mark.parametrize("kind", KEYS)
def test_a_key_is_found_on_stderr(kind: str) -> None:
    (row,) = FAMILY.stderr
    (found,) = row.check(Stderr(f"Authorization: {KEYS[kind]}".encode()), History())
    assert found.message == f"server put {kind} into a line on stderr"


@pytest.mark.parametrize("marks", ["gh[pousr]_", "glsa_"])
def test_documented_keys_have_the_checksum_that_is_computed(marks: str) -> None:
    (form,) = (form for form in FORMS if form.marks == marks)
    assert sum(form.is_genuine(match) for match in map(form.regex.search, DOCUMENTED) if match) == 2


@pytest.mark.parametrize(
    "text",
    [
        KEYS["a GitHub token"][:-1],
        "gh" + "p_" + RANDOM[:36],
        "gl" + "pat-" + "x" * 20,
        "sk_" + "test_" + RANDOM[:24],
        "sk_" + "live_" + "EXAMPLE" + RANDOM[:24],
        *DOCUMENTED,
        "hf_" + "a" * 34,
        "AKIAIOSFODNN7EXAMPLE",
        "-----BEGIN PRIVATE KEY----- ... -----END PRIVATE KEY-----",
        "-----BEGIN PUBLIC KEY-----\n" + RANDOM * 4 + "\n-----END PUBLIC KEY-----",
        "0f8fad5b-d9cb-469f-a165-70867728950e",
        "password=hunter2 api_key=" + RANDOM,
        "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.",
    ],
)
def test_what_only_resembles_a_key_is_not_one(text: str) -> None:
    assert list(secrets_in(f"a {text} b")) == []


def test_the_rule_can_be_enforced_for_requests() -> None:
    dispatch = ruleset.load().extended({"SEC-007"}).dispatch
    assert FAMILY in dispatch.families
    assert "SEC-007" in enforceable_rules(dispatch)


@pytest.mark.parametrize("header", ["hbGciOiJub25lIn0", "A" * 2000])
def test_a_token_whose_header_has_a_certificate_is_a_credential(header: str) -> None:
    found = list(credentials_in(f"the token eyJ{header}.eyJ{'B' * 40}.{'C' * 40}"))
    assert ["a JSON Web Token" in str(each) for each in found] == [True]
