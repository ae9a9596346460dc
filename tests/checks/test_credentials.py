"""A value that looks like a credential is found; one that mentions or replaces a credential is not."""

from typing import Final

import pytest

from mcpproxy.judge.checks.opt_in.credentials import credentials_in, names_sensitive
from mcpproxy.protocol.jsonrpc import JSON

FOUND: Final[dict[str, tuple[JSON, list[str]]]] = {
    "a member named for a secret": ({"apiKey": "k-83hf7"}, ["/apiKey"]),
    "a list of them": ({"password": ["first one", "second one"]}, ["/password/0", "/password/1"]),
    "a token in a sentence": ("using AKIAIOSFODNN7QWERTYU now", [""]),
    "a key block": ({"log": "-----BEGIN RSA PRIVATE KEY-----\nMIIE"}, ["/log"]),
    "a header": ({"headers": {"x": "Bearer abcdefghij0123456789"}}, ["/headers/x"]),
    "a URL with a password": ("redis://cache:s3cr3tpw@10.0.0.1:6379", [""]),
    "only once for one value": ({"secret_key": "sk-proj-aB3dE5fG7hI9jK1lM3nO5"}, ["/secret_key"]),
}

QUIET: Final[dict[str, JSON]] = {
    "nothing": None,
    "a mask": {"password": "••••••••"},
    "the same character": {"password": "aaaaaaaa"},
    "a template": {"password": "${DB_PASSWORD}"},
    "a remark": {"access_token": "not set"},
    "a number": {"password": 12345678},
    "too short": {"password": "abc"},
    "a name that goes on": {"passwordPolicy": "twelve characters", "apiKeyId": "k-1234567"},
    "a page token": {"nextPageToken": "eyJvZmZzZXQiOjEwMH0"},
    "a commit": "at 3f2c1a9d8e7b6a5f4e3d2c1b0a9f8e7d6c5b4a39",
    "a URL with a port": "http://user.example.com:8080/a@b",
}


@pytest.mark.parametrize("name", FOUND)
def test_a_credential_is_found_at_its_place(name: str) -> None:
    value, pointers = FOUND[name]
    assert [pointer for pointer, _ in credentials_in(value)] == pointers


def test_a_credential_is_not_repeated() -> None:
    ((_, what),) = credentials_in({"apiKey": "k-83hf7"})
    assert "k-83hf7" not in what


@pytest.mark.parametrize("name", QUIET)
def test_a_value_that_only_resembles_a_credential_is_not_found(name: str) -> None:
    assert list(credentials_in(QUIET[name])) == []


def test_only_the_first_values_of_a_large_message_are_checked() -> None:
    value: JSON = [*(["x"] * 1_000), {"password": "correct horse"}]
    assert list(credentials_in(value)) == []


@pytest.mark.parametrize(
    ("name", "sensitive"),
    [
        ("password", True),
        ("userPassword", True),
        ("API key", True),
        ("OPENAI_API_KEY", True),
        ("github-token", True),
        ("Card number", True),
        ("passwordHint", False),
        ("key", False),
        ("token_count", False),
        ("username", False),
        ("", False),
    ],
)
def test_the_end_of_a_name_shows_whether_its_value_is_sensitive(name: str, sensitive: bool) -> None:
    assert names_sensitive(name) == sensitive
