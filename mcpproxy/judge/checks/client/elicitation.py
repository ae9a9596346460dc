"""Elicitation: questions of a server to the client's user, and the user's answers.

In form mode the client shows the user a form; in URL mode it sends the user to a web page.
``checks.basic.shapes`` checks the members of requests and results. This module checks forms, their content,
URLs and ids. ``checks.basic.embedded`` defines ``Ask``, a request of the server, and ``Reply``, its result.

Source: https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation
"""

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from mcpproxy.base.patterns import pattern
from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.checks.basic import embedded
from mcpproxy.judge.checks.basic.embedded import Ask, Reply, check_asks, check_replies, rows_for_both_eras
from mcpproxy.judge.checks.engine.context import MessageContext, Violation, shortened
from mcpproxy.judge.checks.engine.rows import Check, RuleFamily, StateUpdate
from mcpproxy.judge.checks.opt_in.credentials import names_sensitive
from mcpproxy.judge.session.frame import SERVER, Severity
from mcpproxy.judge.session.history import History
from mcpproxy.protocol.error_message import URL_REQUIRED
from mcpproxy.protocol.jsonrpc import JSON, Absent, ErrorResponse, JSONObject, Notification, Request
from mcpproxy.protocol.message_parts import as_object, member
from mcpproxy.protocol.schema.forms import misfits
from mcpproxy.protocol.shapes.lookup import violations
from mcpproxy.protocol.wording import shown, token

if TYPE_CHECKING:
    from urllib.parse import SplitResult

CREATE: Final = ("elicitation/create",)
COMPLETE: Final = ("notifications/elicitation/complete",)

URL_REQUIRED_TEXT: Final = (b"-32042",)
"""``URL_REQUIRED`` as bytes: a message without them is not checked for the error."""

COMPOSED: Final = ("$ref", "allOf", "anyOf", "not", "if", "$dynamicRef", "properties", "patternProperties")
"""Keywords that are not allowed in the schema of a form field of any type."""

MAX_IDS: Final = 10_000
"""The number of elicitation ids that are remembered."""


@slotted()
class Elicitations:
    """The ids that elicitations have (in URL mode), each with the URL and the frame that gave it.

    ``forgot_some`` is set once there were more ids than are remembered.
    """

    started: dict[str, tuple[JSON, int]] = field(default_factory=dict[str, tuple[JSON, int]])
    forgot_some: bool = False


# The request


def faulty_request(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report faults in a request for elicitation (ELIC-002, ELIC-004, ELIC-008, ELIC-009)."""
    checks = (_composed_field, _unusable_url, _secret_field, _repeated_id)
    return check_asks(context, history, "elicitation/create", checks)


def _composed_field(ask: Ask, context: MessageContext, history: History) -> Iterator[Violation]:
    """Report a form field whose schema has a keyword that forms do not have (ELIC-002)."""
    for name, schema, pointer in _fields(ask):
        keywords = [keyword for keyword in COMPOSED if keyword in schema]
        if keywords and isinstance(schema.get("type"), str) and schema["type"] != "object":
            schema_text = f"a schema that has {keywords[0]}, which forms do not allow"
            problem = f"server asked for {shown(name)} with {schema_text}"
            # A warning only: the schema of MCP allows any keyword there, and only the text of the
            # specification forbids these.
            yield Violation(
                "ELIC-002", "R-181", problem, pointer=pointer + token(keywords[0]), at_most="warning"
            )


def _unusable_url(ask: Ask, context: MessageContext, history: History) -> Iterator[Violation]:
    """Report a URL that is not absolute or not secure (ELIC-004)."""
    url = member(ask.params, "url")
    if member(ask.params, "mode") != "url" or not isinstance(url, str):
        return
    parts = parse_url(url)
    if parts is None:
        problem = f"server sent the user to {shown(url)}, which is not an absolute URL"
        yield Violation("ELIC-004", "R-183", problem, pointer=ask.at + "/params/url")
    elif parts.scheme == "http" and not is_local(parts.hostname or ""):
        problem = f"server sent the user to {shown(url)} without TLS"
        # This is a SHOULD, and does not apply in development.
        yield Violation("ELIC-004", "R-183", problem, pointer=ask.at + "/params/url", at_most="info")


def _secret_field(ask: Ask, context: MessageContext, history: History) -> Iterator[Violation]:
    """Report a form field that asks for a secret (ELIC-008)."""
    for name, schema, pointer in _fields(ask):
        if schema.get("type") not in ("string", "number", "integer") or "enum" in schema or "oneOf" in schema:
            continue
        title = schema.get("title")
        if _asks_secret(name) or (isinstance(title, str) and _asks_secret(title)):
            problem = f"server asked in a form for {shown(name)}, which seems to be a secret"
            yield Violation("ELIC-008", "R-187", problem, pointer=pointer, at_most="warning")


def _repeated_id(ask: Ask, context: MessageContext, history: History) -> Iterator[Violation]:
    """Report an elicitation in URL mode with the id of an earlier one that had another URL (ELIC-009)."""
    id, url = member(ask.params, "elicitationId"), member(ask.params, "url")
    if not isinstance(id, str) or member(ask.params, "mode") != "url":
        return
    first_url, first_seq = history.of(Elicitations).started.get(id, (url, 0))
    # A request with the same URL repeats the first elicitation and does not start a second one.
    if first_url != url:
        problem = f"server gave a second elicitation the id {shown(id)}, for another URL"
        pointer = ask.at + "/params/elicitationId"
        yield Violation(
            "ELIC-009", "R-188", problem, pointer=pointer, related=(first_seq,), at_most="warning"
        )


# The result


def faulty_result(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report faults in the content of an answer (ELIC-006, ELIC-007)."""
    return check_replies(context, history, "elicitation/create", (_misplaced_content, _unfit_content))


def _misplaced_content(reply: Reply, context: MessageContext, history: History) -> Iterator[Violation]:
    """Report content for a URL or a refusal, and an accepted form without content (ELIC-006)."""
    action, ask = reply.result.get("action"), reply.ask
    pointer = reply.at + "/content"
    if action == "accept" and ask is not None:
        by_url = member(ask.params, "mode") == "url"
        if by_url and "content" in reply.result:
            problem = "client sent content although the user was sent to a URL and not shown a form"
            yield Violation("ELIC-006", "R-185", problem, pointer=pointer, related=(ask.seq,))
        elif not by_url and "content" not in reply.result and _has_fields(ask):
            problem = "client accepted a form without sending its content"
            yield Violation("ELIC-006", "R-185", problem, pointer=pointer, related=(ask.seq,))
    elif action in ("decline", "cancel") and reply.result.get("content"):
        problem = f"client sent content with the action {action}"
        # The specification only says that such content is typically omitted.
        yield Violation("ELIC-006", "R-185", problem, pointer=pointer, at_most="info")


def _unfit_content(reply: Reply, context: MessageContext, history: History) -> Iterator[Violation]:
    """Report content that does not match the requested schema (ELIC-007)."""
    content, ask = as_object(reply.result.get("content")), reply.ask
    if content is None or ask is None or reply.result.get("action") != "accept":
        return
    if member(ask.params, "mode") == "url":
        return
    for misfit in misfits(content, member(ask.params, "requestedSchema"), context.candidates[0]):
        field_path = shortened(misfit.pointer.lstrip("/")) or "it"
        problem = f"client sent the content of a form in which {field_path} {misfit.what}"
        # An info only for a wrong format, because JSON Schema lets a validator ignore formats.
        at_most: Severity | None = "info" if misfit.annotated else None
        yield Violation(
            "ELIC-007",
            "R-186",
            problem,
            pointer=f"{reply.at}/content{misfit.pointer}",
            related=(ask.seq,),
            at_most=at_most,
        )


# Completion


def unknown_completion(context: MessageContext[Notification], history: History) -> Iterable[Violation]:
    """Report the completion of an elicitation that was never started (ELIC-009)."""
    message, elicitations = context.message, history.of(Elicitations)
    id = member(message.params, "elicitationId")
    if not isinstance(id, str) or context.sender != SERVER:
        return ()
    if id in elicitations.started or elicitations.forgot_some:
        return ()
    if history.has_gap or not history.server.fully_read:
        return ()
    problem = f"server reported elicitation {shown(id)} as complete, which it never started"
    # Over HTTP the elicitation may have been started in an earlier session of the same client.
    at_most = "warning" if history.over_http else None
    return (
        Violation(
            "ELIC-009", "R-188", problem, pointer=context.at + "/params/elicitationId", at_most=at_most
        ),
    )


def incomplete_error(context: MessageContext[ErrorResponse], history: History) -> Iterable[Violation]:
    """Report an error -32042 that does not list valid URL elicitations (ELIC-010).

    Only an error for a client that has declared URL mode in the handshake is judged.
    """
    message = context.message
    error = as_object(message.error)
    if error is None or error.get("code") != URL_REQUIRED or context.sender != SERVER:
        return ()
    if member(history.client_capabilities, "elicitation", "url") is None:
        return ()  # Without this capability the code may mean something else: MCP does not reserve it.
    return _faulty_elicitations(member(error, "data", "elicitations"), context)


def _faulty_elicitations(elicitations: JSON, context: MessageContext) -> Iterator[Violation]:
    """Report an empty list of elicitations, and each listed elicitation that is not valid (ELIC-010)."""
    pointer = context.at + "/error/data/elicitations"
    if not isinstance(elicitations, list) or not elicitations:
        problem = "server answered with the error -32042, but listed no elicitation"
        yield Violation("ELIC-010", "R-189", problem, pointer=pointer)
        return
    for index, elicitation in enumerate(elicitations):
        mode = member(elicitation, "mode")
        if mode != "url":
            problem = (
                f'server listed in the error -32042 an elicitation whose mode is {shown(mode)}, not "url"'
            )
            yield Violation("ELIC-010", "R-189", problem, pointer=f"{pointer}/{index}/mode")
            continue
        for violation in violations(elicitation, "ElicitURLParams", context.candidates[0]):
            problem = (
                f"server listed in the error -32042 an elicitation whose {violation.pointer.lstrip('/')}"
            )
            problem = f"{problem} {violation.clause}"
            yield Violation("ELIC-010", "R-189", problem, pointer=f"{pointer}/{index}{violation.pointer}")


# Forms and URLs


def _fields(ask: Ask) -> Iterator[tuple[str, JSONObject, str]]:
    """Yield the fields of a form: the name, the schema and the JSON Pointer of the schema."""
    if member(ask.params, "mode") in (None, "form"):
        properties = as_object(member(ask.params, "requestedSchema", "properties")) or {}
        for name, schema in properties.items():
            if isinstance(schema, dict):
                yield name, schema, f"{ask.at}/params/requestedSchema/properties{token(name)}"


def _has_fields(ask: Ask) -> bool:
    return bool(member(ask.params, "requestedSchema", "properties"))


def _asks_secret(text: str) -> bool:
    """Whether a name or title asks for a secret, or for a secret again ("Password (repeat)")."""
    return names_sensitive(re.sub(r"(again|confirmation|repeat(ed)?|value)\)?\W*$", "", text, flags=re.I))


def parse_url(url: str) -> "SplitResult | None":
    """Return the parts of ``url``, or ``None`` if it is not an absolute URL."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s\x00-\x1f]+", url):
        return None
    from urllib.parse import urlsplit  # imported here: it takes 3 ms, and few sessions need it

    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return None
    return None if parts.scheme in ("http", "https") and not host else parts


def is_local(host: str) -> bool:
    """Whether ``host`` seems to be this machine or one on the local network, or is a reserved name.

    A host without a dot counts as local, but not an IPv6 address that is public.
    """
    return LOCAL.search(host) is not None or ("." not in host and PUBLIC_IPV6.search(host) is None)


LOCAL: Final = pattern(
    r"^([0-9a-f:]*:)?((127|10)\.|192\.168\.|172\.(1[6-9]|2[0-9]|3[01])\.|169\.254\.)"
    r"|(^|\.)(localhost|local|internal|test|example|invalid)$"
)
"""Finds loopback, private and link-local IPv4 addresses, also within an IPv6 address, and the names that no
public host has.
"""

PUBLIC_IPV6: Final = pattern(r"^(?!2001:0?db8:)[23][0-9a-f]{3}:")
"""Finds IPv6 addresses of 2000::/3, the public ones, without those of documentation (RFC 3849)."""


# The state


def remember_elicitation(context: MessageContext[Request], history: History) -> None:
    """Record an elicitation that a server starts."""
    if context.sender == SERVER:
        _remember_id(context.message.params, context, history)


def remember_error(context: MessageContext[ErrorResponse], history: History) -> None:
    """Record the elicitations that an error -32042 lists."""
    message = context.message
    if member(as_object(message.error), "code") == URL_REQUIRED:
        elicitations = member(as_object(message.error), "data", "elicitations")
        for elicitation in elicitations if isinstance(elicitations, list) else []:
            _remember_id(elicitation, context, history)


def _remember_id(params: "JSON | Absent", context: MessageContext, history: History) -> None:
    """Record an elicitation with a new id and its URL. If there are too many ids, drop the oldest."""
    id, elicitations = member(params, "elicitationId"), history.of(Elicitations)
    if isinstance(id, str) and id not in elicitations.started:
        elicitations.started[id] = (member(params, "url"), context.seq)
        if len(elicitations.started) > MAX_IDS:
            del elicitations.started[next(iter(elicitations.started))]
            elicitations.forgot_some = True


_REQUEST_RULES: Final = ("ELIC-002", "ELIC-004", "ELIC-008", "ELIC-009")
_RESULT_RULES: Final = ("ELIC-006", "ELIC-007")

FAMILY: Final = RuleFamily(
    checks=(
        *rows_for_both_eras(CREATE, (_REQUEST_RULES, faulty_request), (_RESULT_RULES, faulty_result)),
        Check(("ELIC-009",), unknown_completion, (Notification,), COMPLETE),
        Check(("ELIC-010",), incomplete_error, (ErrorResponse,), sender=SERVER, mentions=URL_REQUIRED_TEXT),
    ),
    updates=(
        *embedded.UPDATES,
        StateUpdate(remember_elicitation, (Request,), CREATE),
        StateUpdate(remember_error, (ErrorResponse,), sender=SERVER, mentions=URL_REQUIRED_TEXT),
    ),
)
