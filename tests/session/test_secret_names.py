"""Which names say that their value is a secret, and which only look like it."""

import pytest

from mcpproxy.base.secret_names import HARMLESS_WORDS, SECRET_WORDS, UNSEPARATED, names_secret, words_of

SECRET = """
    Authorization Proxy-Authorization X-Authorization Cookie Set-Cookie Mcp-Session-Id Session-Id X-Api-Key
    X-RapidAPI-Key Ocp-Apim-Subscription-Key X-Functions-Key X-JWT Signature X-Hub-Signature-256
    X-Signature-Ed25519 X-Amz-Security-Token X-Amz-Signature X-CSRF-Token X-Goog-Api-Key DD-Application-Key
    Mcp-Param-Api-Key DPoP dpop_jkt api-key apikey APIKey XAPIKey sig jwt pwd authToken AUTHTOKEN accessToken
    clientSecret refreshToken private_key session_token id_token token secret password userPassword dbpassword
    user[password] passphrase credentials aws_secret_access_key sessionId PHPSESSID jsessionid tokenValue
    password2 secret.value
"""

HARMLESS = """
    keyboard monkey tokenizer tokens max_tokens maxTokens author authors authority authorized signal sign
    signed_metadata design assigned key keys primaryKey public_key cache_key Idempotency-Key Sec-WebSocket-Key
    token_type token_endpoint token_endpoint_auth_method id_token_signing_alg_values_supported
    client_secret_expires_at jwks_uri client_id code_challenge state nonce session sessions session_state
    Signature-Input progressToken pageToken nextPageToken nextCursor Access-Control-Allow-Credentials
    Mcp-Method Mcp-Name Mcp-Param-Region Mcp-Protocol-Version Last-Event-ID secretary compass passenger
    passwordless cookieless WWW-Authenticate Content-Type DPoP-Nonce dpop_signing_alg_values_supported
"""


@pytest.mark.parametrize("name", SECRET.split())
def test_names_of_secrets(name: str) -> None:
    assert names_secret(name)
    assert names_secret(name.upper()) or not name.isascii() or name != name.lower()


@pytest.mark.parametrize("name", HARMLESS.split())
def test_near_misses(name: str) -> None:
    assert not names_secret(name)


def test_a_text_is_not_a_name() -> None:
    assert not names_secret("")
    assert not names_secret("x" * 100 + "-token")
    assert not names_secret('<input name="token')


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("X-RapidAPI-Key", "x rapid api key"),
        ("clientSecret", "client secret"),
        ("private_key", "private key"),
        ("APIKey2", "api key 2"),
        ("a", "a"),
        ("-", ""),
        ("Größe", "größe"),
    ],
)
def test_words(name: str, words: str) -> None:
    assert words_of(name) == words.split()


def test_the_tables_are_in_the_form_that_is_looked_up() -> None:
    for words in SECRET_WORDS | HARMLESS_WORDS:
        assert " ".join(words_of(words)) == words
        assert len(words.split()) <= 2
    assert all(words_of(glued) == [glued] for glued in UNSEPARATED)
    assert all(names_secret(words) for words in SECRET_WORDS)
    assert not any(names_secret(words) for words in HARMLESS_WORDS)
