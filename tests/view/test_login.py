"""A login in a recording: its steps, what each breaks, the first that failed, and why."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from mcpproxy.read.view.login.login import Login
from mcpproxy.read.view.login.meanings import Stage
from tests.view.logins import ISSUER, METADATA, OWN, REFUSALS, RESOURCE_URL, SECRET, Conversation


@pytest.fixture
def said(tmp_path: Path) -> Conversation:
    return Conversation(tmp_path / "files.jsonl")


def stages(login: Login) -> list[str]:
    return [step.stage for step in login.steps]


def remarks(login: Login) -> list[str]:
    return [f"{one.blame}: {one.text}" for step in login.steps for one in step.remarks]


def test_a_whole_login_has_every_step_once_and_shows_no_secret(said: Conversation) -> None:
    said.challenge().metadata().registers().asks_the_user().gets_a_token()
    login = said.uses_it().uses_it().uses_it().login()
    assert stages(login) == list(Stage)
    assert (login.failed, remarks(login)) == (None, [])
    assert login.conclusion == "the server takes the token (step 7)"
    assert SECRET not in repr(login)


def test_what_is_tried_elsewhere_first_is_no_failure(said: Conversation) -> None:
    said.challenge().ask("GET", f"{ISSUER}/.well-known/openid-configuration", (404, {}, None))
    login = said.metadata().registers().asks_the_user().gets_a_token().uses_it().login()
    assert login.steps[1].fault == "there is no document here (404)"
    assert login.failed is None


WHY: Final = {
    "registration": "invalid_redirect_uri: the authorization server does not accept this redirect URI",
    "authorization": "access_denied: the user or the authorization server said no",
    "token": "invalid_grant: PKCE verification failed (the code or refresh token was used before, has "
    "expired, belongs to another client, or does not fit redirect_uri or code_verifier)",
    "request with the token": "invalid_token: wrong audience (the token is malformed, expired, revoked, or "
    "not meant for this server)",
}


@pytest.mark.parametrize("stage", REFUSALS)
def test_the_step_that_failed_says_why(said: Conversation, stage: str) -> None:
    login = REFUSALS[stage](said.challenge().metadata()).login()
    last = login.steps[-1]
    assert login.failed is last
    assert (last.stage, last.fault) == (stage, WHY[stage])
    assert last.source.startswith("https://www.rfc-editor.org/rfc/rfc")
    assert login.conclusion.startswith(f"it failed at step {len(login.steps)}, {stage}: ")
    assert remarks(login) == []


def test_a_refusal_that_a_second_token_mends_is_none(said: Conversation) -> None:
    said.challenge().metadata().registers().asks_the_user().gets_a_token()
    more = {"WWW-Authenticate": 'Bearer error="insufficient_scope", scope="files:write"'}
    said.uses_it((403, more, None))
    assert said.login().conclusion.endswith("insufficient_scope: the token has too little scope")
    login = said.asks_the_user(scope="files:write").gets_a_token().uses_it().login()
    assert stages(login)[6:] == ["request with the token", "authorization", "token", "request with the token"]
    assert login.failed is None


def test_a_login_that_goes_on_elsewhere_says_where(tmp_path: Path) -> None:
    said = Conversation(tmp_path / "r.jsonl", mode="reverse", upstream=f"{OWN}/mcp")
    said.challenge().ask(
        "GET", RESOURCE_URL, (200, {}, {"resource": f"{OWN}/mcp", "authorization_servers": [ISSUER]})
    )
    said.ask("GET", f"{OWN}/.well-known/oauth-authorization-server", (200, {}, METADATA))
    assert said.login().conclusion == (
        "it ends with step 3, server metadata; next comes the registration, or authorization with a known "
        f"client id; what goes to {ISSUER} does not pass here, and mcpproxy http --forward records it"
    )


@pytest.mark.parametrize(
    ("server", "remark"),
    [
        ({**METADATA, "issuer": f"{ISSUER}/other"}, "whose document lies elsewhere"),
        ({k: v for k, v in METADATA.items() if k != "code_challenge_methods_supported"}, "there is no PKCE"),
        ({**METADATA, "token_endpoint": "http://auth.example/t"}, "token_endpoint is not served over HTTPS"),
    ],
)
def test_metadata_that_a_client_must_not_use(said: Conversation, server: dict[str, Any], remark: str) -> None:
    login = said.challenge().metadata(server=server).login()
    assert [one for one in remarks(login) if remark in one and one.startswith("server: ")]


def test_metadata_of_another_resource(said: Conversation) -> None:
    assert remarks(said.challenge().metadata(resource=f"{OWN}/other").login()) == [
        f"server: resource is not {OWN}/mcp: a client must not use this document"
    ]
    above = Conversation(said.path).challenge().metadata(resource=OWN).login()
    assert remarks(above) == []


def test_what_the_authorization_lacks(said: Conversation) -> None:
    promised = {**METADATA, "authorization_response_iss_parameter_supported": True}
    said.challenge().metadata(server=promised).registers()
    login = said.asks_the_user({"code": SECRET, "state": "other"}, code_challenge_method="plain").login()
    assert remarks(login) == [
        "client: code_challenge_method is not S256",
        "server: the answer does not have the state of the request: a client must not use the code",
        "server: the answer has no iss, which the metadata promises: a client must not use the code",
    ]
    fits = Conversation(said.path).challenge().metadata(server=promised).registers()
    assert remarks(fits.asks_the_user({"code": SECRET, "state": "s", "iss": ISSUER}).login()) == []


def test_a_token_that_no_step_has_given(said: Conversation) -> None:
    said.challenge().metadata().registers().asks_the_user().gets_a_token()
    (*_, used) = said.uses_it(token="another").login().steps
    assert used.asked.endswith("with a bearer token that no step here has given")


@pytest.mark.parametrize(
    "body", ["[" * 100_000, "", "{", '{"a":', json.dumps({"authorization_servers": 7}), "\x00", '"text"']
)
def test_documents_of_any_content_are_a_step_that_failed(said: Conversation, body: str) -> None:
    said.challenge().ask("GET", RESOURCE_URL, (200, {}, body))
    assert said.login().failed is not None


def test_texts_of_peers_are_one_safe_line(said: Conversation) -> None:
    hostile = {"error": "x\x1b[2J\n::error::", "error_description": f"password={SECRET} {'y' * 9999}"}
    login = said.challenge().metadata().registers((400, {}, hostile)).login()
    assert login.failed is not None
    told = login.failed.answered + login.failed.fault
    assert told.isprintable()
    assert SECRET not in told
    assert len(told) < 1500
