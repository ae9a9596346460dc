"""Explain the error codes of a login, with the section of the specification that defines each."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

SPECIFICATION: Final = "https://modelcontextprotocol.io/specification"
_RFC: Final = "https://www.rfc-editor.org/rfc/rfc"


class Stage(StrEnum):
    """The stages of a login, in their order."""

    CHALLENGE = "challenge"
    RESOURCE = "resource metadata"
    SERVER = "server metadata"
    REGISTRATION = "registration"
    AUTHORIZATION = "authorization"
    TOKEN = "token"
    RETRY = "request with the token"


ORDER: Final = tuple(Stage)

# Error code -> its meaning.
_MEANINGS: Final[Mapping[str, str]] = {
    "invalid_request": "a parameter is missing, malformed, or there twice",
    "invalid_client": "the client is not known here, or its credentials are not right",
    "invalid_grant": "the code or refresh token was used before, has expired, belongs to another client, "
    "or does not fit redirect_uri or code_verifier",
    "unauthorized_client": "this client may not ask in this way",
    "unsupported_grant_type": "the server gives no token for this kind of grant",
    "unsupported_response_type": "the server does not answer in this way",
    "invalid_scope": "the scope is unknown, malformed, or more than the client may have",
    "invalid_target": "the server gives no token for this resource",
    "access_denied": "the user or the authorization server said no",
    "server_error": "the authorization server failed",
    "temporarily_unavailable": "the authorization server is overloaded or being serviced",
    "invalid_redirect_uri": "the authorization server does not accept this redirect URI",
    "invalid_client_metadata": "the authorization server does not accept what the client says about itself",
    "invalid_software_statement": "the software statement is not valid",
    "unapproved_software_statement": "the software statement is not approved here",
    "invalid_token": "the token is malformed, expired, revoked, or not meant for this server",
    "insufficient_scope": "the token has too little scope",
    "use_dpop_nonce": "the proof needs the nonce of this answer",
    "invalid_dpop_proof": "the proof of possession is not right",
}

# Where the error codes of a stage are defined.
_SECTIONS: Final[Mapping[Stage, str]] = {
    Stage.REGISTRATION: f"{_RFC}7591#section-3.2.2",
    Stage.AUTHORIZATION: f"{_RFC}6749#section-4.1.2.1",
    Stage.TOKEN: f"{_RFC}6749#section-5.2",
    Stage.RETRY: f"{_RFC}6750#section-3.1",
}

# Where error codes of other specifications are defined.
_OTHER_SECTIONS: Final[Mapping[str, str]] = {
    "invalid_target": f"{_RFC}8707#section-2",
    "use_dpop_nonce": f"{_RFC}9449#section-8",
    "invalid_dpop_proof": f"{_RFC}9449#section-7.1",
}


def meaning(stage: Stage, error: str) -> tuple[str, str]:
    """Return the meaning of an error code as a clause, and the URL of its source; each empty if not known."""
    why = _MEANINGS.get(error, "")
    return why, (_OTHER_SECTIONS.get(error) or _SECTIONS.get(stage, "")) if why else ""


# Where it is defined what a client must check: ``resource`` and ``issuer`` in metadata, ``iss`` and
# ``state``.
RESOURCE_RULE: Final = f"{_RFC}9728#section-3.3"
ISSUER_RULE: Final = f"{_RFC}8414#section-3.3"
ISS_RULE: Final = f"{_RFC}9207#section-2.4"
STATE_RULE: Final = f"{_RFC}6749#section-10.12"


def page(revision: str, section: str) -> str:
    """Return the address of a section on authorization in a revision of the specification.

    From 2026-07-28 on, the text is on several pages.
    """
    folder = f"{SPECIFICATION}/{revision}/basic/authorization"
    if revision < "2026-07-28":
        return f"{folder}#{section}"
    own = {
        "authorization-code-protection": "/security-considerations",
        "communication-security": "/security-considerations",
        "authorization-server-location": "/authorization-server-discovery",
        "protected-resource-metadata-discovery-requirements": "/authorization-server-discovery",
        "authorization-server-metadata-discovery": "/authorization-server-discovery",
    }
    return f"{folder}{own.get(section, '')}#{section}"
