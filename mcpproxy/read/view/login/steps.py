"""Recognise the steps of a login, and describe the request, the answer and any fault of each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from mcpproxy.base.authority import is_loopback
from mcpproxy.judge.session.masked_values import Mask, as_mask, credential
from mcpproxy.protocol.header_names import PROTOCOL_VERSION
from mcpproxy.protocol.oauth import RESOURCE_METADATA, SERVER_METADATA
from mcpproxy.protocol.revisions import REVISIONS, since
from mcpproxy.read.view.login.documents import (
    challenge,
    document,
    form,
    members,
    origin,
    place,
    query,
    shown,
    urlsplit_or_empty,
)
from mcpproxy.read.view.login.meanings import (
    ISS_RULE,
    ISSUER_RULE,
    RESOURCE_RULE,
    STATE_RULE,
    Stage,
    meaning,
    page,
)
from mcpproxy.read.view.login.web_exchanges import WebExchange
from mcpproxy.record.trace.records import Header

# The revisions in which a client must name the resource, and in which it must check that PKCE is supported.
_WITH_RESOURCE: Final = frozenset(since("2025-06-18"))
_WITH_PKCE_CHECK: Final = frozenset(since("2025-11-25"))

_ENDPOINTS: Final[Mapping[str, Stage]] = {
    "registration_endpoint": Stage.REGISTRATION,
    "authorization_endpoint": Stage.AUTHORIZATION,
    "token_endpoint": Stage.TOKEN,
}

# The members of each message that are shown.
_IN_METADATA: Final = (
    "issuer",
    *_ENDPOINTS,
    "code_challenge_methods_supported",
    "client_id_metadata_document_supported",
    "dpop_signing_alg_values_supported",
)
_IN_REGISTRATION: Final = (
    "client_name",
    "redirect_uris",
    "grant_types",
    "token_endpoint_auth_method",
    "application_type",
    "scope",
    "dpop_bound_access_tokens",
)
_IN_AUTHORIZATION: Final = (
    "client_id",
    "redirect_uri",
    "scope",
    "resource",
    "code_challenge_method",
    "state",
    "dpop_jkt",
)
_IN_TOKEN_REQUEST: Final = (
    "grant_type",
    "client_id",
    "redirect_uri",
    "resource",
    "scope",
    "code",
    "code_verifier",
    "refresh_token",
)
_IN_TOKEN: Final = ("token_type", "expires_in", "scope", "access_token", "refresh_token")


@dataclass(frozen=True, slots=True)
class LoginRemark:
    """Something in a step that breaks a sentence of the specification, found here or by the judge.

    ``blame`` is the peer that breaks it, ``source`` the URL of the sentence.
    """

    blame: str
    text: str
    source: str


@dataclass(slots=True)
class LoginStep:
    """One request of a login and its answer.

    ``seq`` is the frame of the request, ``last_seq`` the last frame of the step with its repetitions.
    ``at_ns`` is the time of the request in nanoseconds since the start of the recording. ``asked`` and
    ``answered`` describe request and answer. ``fault`` says why the step failed, and ``source`` is the URL
    that explains it; both are empty if it did not fail. ``again`` counts repetitions with the same answer.
    """

    number: int
    stage: Stage
    seq: int
    at_ns: int
    asked: str
    answered: str
    fault: str = ""
    source: str = ""
    remarks: list[LoginRemark] = field(default_factory=list[LoginRemark])
    again: int = 0
    last_seq: int = 0


class StepReader:
    """Makes steps from exchanges, which are given to ``read`` in the order of ``web_exchanges``.

    ``named`` are the URLs that documents and challenges have named, each with its stage.
    """

    def __init__(self, header: Header) -> None:
        self._header: Final = header
        self._revision = ""
        self._mcp_url = header.upstream
        self.named: Final[dict[str, Stage]] = {}
        self._issuer = ""
        self._sends_iss = False
        self._tokens: Final[set[Mask]] = set()
        self._has_new_token = True
        self._readers: Final[Mapping[Stage, Callable[[WebExchange, LoginStep], None]]] = {
            Stage.CHALLENGE: self._read_challenge,
            Stage.RESOURCE: self._read_resource,
            Stage.SERVER: self._read_server,
            Stage.REGISTRATION: self._read_registration,
            Stage.AUTHORIZATION: self._read_authorization,
            Stage.TOKEN: self._read_token,
            Stage.RETRY: self._read_retry,
        }

    @property
    def revision(self) -> str:
        """The revision that the messages name; the newest if none does."""
        return self._revision or REVISIONS[-1]

    def read(self, exchange: WebExchange) -> LoginStep | None:
        """Return an exchange as a step with number 0; ``None`` if it is no step of a login."""
        stage = self._stage_of(exchange)
        if stage is None:
            return None
        answered = f"{exchange.status} {shown(exchange.reason)}".strip() if exchange.status else "no answer"
        step = LoginStep(
            0,
            stage,
            exchange.seq,
            exchange.at_ns,
            f"{exchange.method} {place(exchange.url)}",
            answered + (" (from mcpproxy)" if exchange.by_proxy else ""),
            last_seq=max(exchange.seq, exchange.answer_seq),
        )
        if not exchange.status:
            step.fault = "the recording has no answer"
        self._readers[stage](exchange, step)
        # A DPoP proof (RFC 9449) may go with any of these requests.
        if "dpop" in exchange.fields:
            step.asked += ", with a DPoP proof"
        if "dpop-nonce" in exchange.answer_fields:
            step.answered += "; a nonce for the next DPoP proof"
        return step

    def _stage_of(self, exchange: WebExchange) -> Stage | None:
        """Return the stage of an exchange; ``None`` if it is no step of a login."""
        if exchange.method == "OPTIONS":
            return None
        if exchange.is_mcp:
            return self._stage_of_message(exchange)
        path = urlsplit_or_empty(exchange.url).path
        if RESOURCE_METADATA in path or self.named.get(_url_key(exchange.url)) is Stage.RESOURCE:
            return Stage.RESOURCE
        if any(name in path for name in SERVER_METADATA):
            return Stage.SERVER
        if named := self.named.get(_url_key(exchange.url)) or self._named_behind_proxy(exchange.url):
            return named
        if exchange.method == "POST":
            if "grant_type" in form(exchange):
                return Stage.TOKEN
            return Stage.REGISTRATION if "redirect_uris" in document(exchange.body) else None
        parameters = query(exchange.url)
        is_authorization = "client_id" in parameters and (
            "response_type" in parameters or "code_challenge" in parameters
        )
        return Stage.AUTHORIZATION if is_authorization else None

    def _named_behind_proxy(self, url: str) -> Stage | None:
        """Return the stage of ``url`` if a document named the same path at the upstream, else ``None``.

        The client uses mcpproxy's own URL if mcpproxy is in front of the upstream.
        """
        if not self._header.listen or not self._header.upstream:
            return None
        return self.named.get(_url_key(origin(self._header.upstream) + urlsplit_or_empty(url).path))

    def _stage_of_message(self, exchange: WebExchange) -> Stage | None:
        """Return the stage of an MCP message that was refused for want of a token, or for its token.

        The first message that is accepted after a new token is a step, too. Return ``None`` for any other.
        """
        self._note_revision(exchange)
        has_token = "authorization" in exchange.fields
        if exchange.status == 401 and not has_token:
            self._mcp_url = self._header.upstream or exchange.url
            return Stage.CHALLENGE
        if not has_token or not exchange.status:
            return None
        is_refused = exchange.status == 401 or (
            exchange.status in (400, 403) and "error" in challenge(exchange.answer_fields)
        )
        if is_refused:
            self._has_new_token = True
            return Stage.RETRY
        if exchange.status < 300 and self._has_new_token:
            self._has_new_token = False
            return Stage.RETRY
        return None

    def _note_revision(self, exchange: WebExchange) -> None:
        named = exchange.fields.get(PROTOCOL_VERSION)
        if named is None:
            params = document(exchange.body).get("params")
            named = params.get("protocolVersion") if isinstance(params, dict) else None
        if isinstance(named, str) and named in REVISIONS:
            self._revision = named

    def _read_challenge(self, exchange: WebExchange, step: LoginStep) -> None:
        step.asked += f"{_method_words(exchange)}, without a token"
        answer = challenge(exchange.answer_fields)
        if url := answer.get("resource_metadata"):
            self.named[_url_key(url)] = Stage.RESOURCE
        if "www-authenticate" not in exchange.answer_fields:
            step.answered += ", without WWW-Authenticate"
        elif shown_members := members(answer, ("resource_metadata", "scope", "error", "error_description")):
            step.answered += f"; {shown_members}"

    def _read_resource(self, exchange: WebExchange, step: LoginStep) -> None:
        metadata = self._read_document(exchange, step)
        if not metadata:
            return
        step.answered += f"; {members(metadata, ('resource', 'authorization_servers', 'scopes_supported'))}"
        servers = metadata.get("authorization_servers")
        if not isinstance(servers, list) or not servers:
            step.fault = "the document names no authorization server"
            step.source = page(self.revision, "authorization-server-location")
            return
        resource = metadata.get("resource")
        if isinstance(resource, str) and self._mcp_url and not _covers(resource, self._mcp_url):
            text = f"resource is not {place(self._mcp_url)}: a client must not use this document"
            step.remarks.append(LoginRemark("server", text, RESOURCE_RULE))

    def _read_server(self, exchange: WebExchange, step: LoginStep) -> None:
        metadata = self._read_document(exchange, step)
        if not metadata:
            return
        step.answered += f"; {members(metadata, _IN_METADATA)}"
        for name, stage in _ENDPOINTS.items():
            if isinstance(url := metadata.get(name), str):
                self.named[_url_key(url)] = stage
                parts = urlsplit_or_empty(url)
                if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
                    source = page(self.revision, "communication-security")
                    step.remarks.append(LoginRemark("server", f"{name} is not served over HTTPS", source))
        issuer = metadata.get("issuer")
        self._issuer = issuer if isinstance(issuer, str) else ""
        self._sends_iss = metadata.get("authorization_response_iss_parameter_supported") is True
        if self._issuer and urlsplit_or_empty(exchange.url).path not in _well_known(self._issuer):
            text = f"issuer is {place(self._issuer)}, whose document lies elsewhere: a client must not use it"
            step.remarks.append(LoginRemark("server", text, ISSUER_RULE))
        if self.revision in _WITH_PKCE_CHECK and "code_challenge_methods_supported" not in metadata:
            text = (
                "code_challenge_methods_supported is not there, so there is no PKCE: a client must not go on"
            )
            source = page(self.revision, "authorization-code-protection")
            step.remarks.append(LoginRemark("server", text, source))

    def _read_document(self, exchange: WebExchange, step: LoginStep) -> "Mapping[str, object]":
        """Return the document in an answer.

        If there is none, set the fault of the step, and return ``{}``.
        """
        if not exchange.status:
            return {}
        if exchange.status != 200:
            step.fault = f"there is no document here ({exchange.status})"
        elif not (metadata := document(exchange.answer)):
            step.fault = "the answer is no JSON object"
        else:
            return metadata
        step.source = page(
            self.revision,
            "authorization-server-metadata-discovery"
            if step.stage is Stage.SERVER
            else "protected-resource-metadata-discovery-requirements",
        )
        return {}

    def _read_registration(self, exchange: WebExchange, step: LoginStep) -> None:
        step.asked += _after_semicolon(members(document(exchange.body), _IN_REGISTRATION))
        answer = document(exchange.answer)
        if exchange.status in (200, 201) and "client_id" in answer:
            step.answered += _after_semicolon(
                members(answer, ("client_id", "client_secret", "redirect_uris"))
            )
        else:
            self._add_refusal(step, exchange.status, answer)

    def _read_authorization(self, exchange: WebExchange, step: LoginStep) -> None:
        parameters = query(exchange.url) or form(exchange)
        step.asked += _after_semicolon(members(parameters, _IN_AUTHORIZATION))
        if "client_id" in parameters:
            self._check_resource(parameters, step)
            if "code_challenge" not in parameters:
                self._remark_pkce(step, "the request has no code_challenge")
            elif parameters.get("code_challenge_method") != "S256":
                self._remark_pkce(step, "code_challenge_method is not S256")
        location = exchange.answer_fields.get("location") or ""
        given = query(location)
        if "error" in given:
            self._add_refusal(step, 0, given)
        elif "code" in given:
            step.answered += f"; to {place(location)} with a code"
            if "state" in parameters and parameters["state"] != given.get("state"):
                text = "the answer does not have the state of the request: a client must not use the code"
                step.remarks.append(LoginRemark("server", text, STATE_RULE))
            self._check_issuer(given, step)
        elif location:
            step.answered += f"; to {place(location)}"
        elif exchange.status >= 400:
            self._add_refusal(step, exchange.status, document(exchange.answer))
        elif exchange.status:
            step.answered += "; a page for the user"

    def _check_issuer(self, given: Mapping[str, str], step: LoginStep) -> None:
        """Check the ``iss`` of the answer, which keeps a client from sending the code to another server."""
        if "iss" in given and self._issuer and given["iss"] != self._issuer:
            text = f"iss is {shown(given['iss'])} and not the issuer: a client must not use the code"
            step.remarks.append(LoginRemark("server", text, ISS_RULE))
        elif "iss" not in given and self._sends_iss:
            text = "the answer has no iss, which the metadata promises: a client must not use the code"
            step.remarks.append(LoginRemark("server", text, ISS_RULE))

    def _read_token(self, exchange: WebExchange, step: LoginStep) -> None:
        parameters = form(exchange)
        step.asked += _after_semicolon(members(parameters, _IN_TOKEN_REQUEST))
        self._check_resource(parameters, step)
        if parameters.get("grant_type") == "authorization_code" and "code_verifier" not in parameters:
            self._remark_pkce(step, "the request has no code_verifier")
        answer = document(exchange.answer)
        token = answer.get("access_token")
        if exchange.status == 200 and isinstance(token, str):
            self._tokens.add(as_mask(token))
            self._has_new_token = True
            step.answered += _after_semicolon(members(answer, _IN_TOKEN))
        else:
            self._add_refusal(step, exchange.status, answer)

    def _read_retry(self, exchange: WebExchange, step: LoginStep) -> None:
        scheme, token = credential(exchange.fields.get("authorization") or "")
        step.asked += f"{_method_words(exchange)}, with a {shown(scheme)} token"
        if self._tokens and as_mask(token) not in self._tokens:
            step.asked += " that no step here has given"
        if exchange.status >= 300:
            answer = challenge(exchange.answer_fields)
            if url := answer.get("resource_metadata"):
                self.named[_url_key(url)] = Stage.RESOURCE
            self._add_refusal(step, exchange.status, answer)
            if scope := answer.get("scope"):
                step.answered += f"; scope {shown(scope)}"

    def _check_resource(self, parameters: Mapping[str, str], step: LoginStep) -> None:
        if self.revision in _WITH_RESOURCE and "resource" not in parameters:
            source = page(self.revision, "resource-parameter-implementation")
            step.remarks.append(LoginRemark("client", "the request does not say for which resource", source))

    def _remark_pkce(self, step: LoginStep, text: str) -> None:
        step.remarks.append(LoginRemark("client", text, page(self.revision, "authorization-code-protection")))

    def _add_refusal(self, step: LoginStep, status: int, answer: "Mapping[str, object]") -> None:
        """Add the error in an answer to a step, and set the step's fault with the meaning of that error."""
        if not status and not answer:
            return
        error = answer.get("error")
        code = error if isinstance(error, str) else ""
        described = answer.get("error_description")
        if shown_members := members(answer, ("error", "error_description")):
            step.answered += f"; {shown_members}"
        why, step.source = meaning(step.stage, code)
        named = shown(described) if isinstance(described, str) and described else why
        step.fault = f"{shown(code)}: {named}" if code and named else shown(code) or f"refused with {status}"
        if why and named != why:
            step.fault += f" ({why})"


def _method_words(exchange: WebExchange) -> str:
    method = document(exchange.body).get("method")
    return f" ({shown(method)})" if isinstance(method, str) else ""


def _after_semicolon(text: str) -> str:
    return f"; {text}" if text else ""


def _url_key(url: str) -> str:
    """Return a URL as a key: without query, fragment and final slash, its origin in lower case."""
    return origin(url) + urlsplit_or_empty(url).path.rstrip("/")


def _covers(resource: str, url: str) -> bool:
    """Whether ``resource`` is the server at ``url``: the same origin, and the same path or one above it."""
    above, path = (urlsplit_or_empty(address).path.rstrip("/") for address in (resource, url))
    return origin(resource) == origin(url) and (path == above or path.startswith(f"{above}/"))


def _well_known(issuer: str) -> set[str]:
    """Return the paths at which the metadata of an issuer may be."""
    path = urlsplit_or_empty(issuer).path.rstrip("/")
    return {f"{name}{path}" for name in SERVER_METADATA} | {f"{path}{SERVER_METADATA[1]}"}
