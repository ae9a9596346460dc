"""The logins, modes and options that an agent offers its client, and the client's choices among them.

Options may change while a session runs. A choice is compared with all that was ever offered, because the
client may not have read the latest change yet.

Source: https://agentclientprotocol.com/protocol/v1/session-config-options
"""

from collections.abc import Iterator
from typing import Final

from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.checks.acp.handshake import Declarations
from mcpproxy.judge.checks.engine.context import MessageContext, Violation
from mcpproxy.judge.checks.engine.rows import ACP_ONLY, Check, RuleFamily, StateUpdate
from mcpproxy.judge.session.frame import CLIENT, SERVER
from mcpproxy.judge.session.history import History, get_or_make
from mcpproxy.protocol import acp
from mcpproxy.protocol.jsonrpc import JSON, Notification, Request, Response
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.wording import shown

MAX_SESSIONS: Final = 1024
"""The number of sessions whose offers are remembered."""

MAX_VALUES: Final = 16_384
"""How many modes and values a session may offer; above that, no choice in it is reported."""


@slotted()
class Offer:
    """The modes and options that the agent offered in one session.

    ``modes`` are the ids of modes. ``values`` maps the id of an option to its values, or to ``None`` if the
    option has no list of them. ``count`` is the number of modes and values, counted again in each offer.
    """

    modes: set[str] = field(default_factory=set[str])
    values: dict[str, set[str] | None] = field(default_factory=dict[str, set[str] | None])
    count: int = 0


@slotted()
class Offers:
    """The offers of the agent, by session id."""

    by_session: dict[str, Offer] = field(default_factory=dict[str, Offer])


# Logins


def unlisted_login(context: MessageContext[Request], history: History) -> Iterator[Violation]:
    """Report a login by a method that the agent did not list, or that runs in a terminal (ACP-019)."""
    declarations, id = history.of(Declarations), member(context.message.params, "methodId")
    if context.sender != CLIENT or declarations.agent is None or history.has_gap or not isinstance(id, str):
        return
    if acp.method(context.message.method, declarations.version) is None:
        return
    listed = declarations.agent.get("authMethods")
    methods = listed if isinstance(listed, list) else []
    if not methods and declarations.version == acp.SECOND:
        return  # ACP-002 reports this.
    key, pointer = "id" if declarations.version == acp.FIRST else "methodId", context.at + "/params/methodId"
    chosen = next((method for method in methods if member(method, key) == id), None)
    if chosen is None:
        problem = f"client chose authentication method {shown(id)}, which the agent did not list"
        yield Violation("ACP-019", "A-046", problem, pointer=pointer)
    elif member(chosen, "type") == "terminal":
        problem = f"client sent {context.message.method} for {shown(id)}, a method that runs in a terminal"
        yield Violation("ACP-019", "A-047", problem, pointer=pointer)


def undeclared_login(context: MessageContext[Response], history: History) -> Iterator[Violation]:
    """Report the first authentication method for terminals, if the client did not declare terminals
    (ACP-020).
    """
    request, methods = context.answers, member(context.message.result, "authMethods")
    if request is None or request is not history.initialize or len(context.candidates) != 1:
        return
    is_first = context.candidates == (acp.FIRST,)
    capabilities = member(request.params, "clientCapabilities" if is_first else "capabilities")
    declared = member(capabilities, "auth", "terminal")
    if declared is True if is_first else isinstance(declared, dict):
        return
    for index, method in enumerate(methods if isinstance(methods, list) else ()):
        if member(method, "type") == "terminal":
            problem = "agent listed an authentication method for terminals, which the client never declared"
            pointer = f"{context.at}/result/authMethods/{index}/type"
            yield Violation("ACP-020", "A-051", problem, pointer=pointer, related=(request.seq,))
            return


# Modes and options


def unlisted_mode(context: MessageContext[Request], history: History) -> Iterator[Violation]:
    """Report a mode that the agent did not offer (ACP-019)."""
    mode, offer = member(context.message.params, "modeId"), _offer(context, history)
    if isinstance(mode, str) and offer is not None and offer.modes and mode not in offer.modes:
        problem = f"client chose mode {shown(mode)}, which the agent did not offer"
        yield Violation("ACP-019", "A-048", problem, pointer=context.at + "/params/modeId")


def unlisted_value(context: MessageContext[Request], history: History) -> Iterator[Violation]:
    """Report a value of an option that the agent did not offer (ACP-019)."""
    params, offer = context.message.params, _offer(context, history)
    id, value = member(params, "configId"), member(params, "value")
    values = offer.values.get(id) if offer is not None and isinstance(id, str) else None
    if values and isinstance(value, str) and value not in values:
        problem = f"client set option {shown(id)} to {shown(value)}, which the agent did not offer"
        yield Violation("ACP-019", "A-049", problem, pointer=context.at + "/params/value")


def undeclared_options(
    context: MessageContext[Response | Notification], history: History
) -> Iterator[Violation]:
    """Report the first boolean option, if the client did not declare such options, in version 1 (ACP-020)."""
    declarations = history.of(Declarations)
    if context.sender != SERVER or declarations.client is None or history.has_gap:
        return
    declared = member(declarations.client, "session", "configOptions", "boolean")
    if isinstance(declared, dict) or context.candidates != (acp.FIRST,):
        return
    options, pointer = _options(context)
    for index, option in enumerate(options):
        if member(option, "type") == "boolean":
            problem = "agent offered a boolean option, although the client never declared that it has them"
            yield Violation("ACP-020", "A-050", problem, pointer=f"{context.at}{pointer}/{index}/type")
            return


def _offer(context: MessageContext[Request], history: History) -> Offer | None:
    """Return what the agent offered in the session of this request; ``None`` if that may be incomplete."""
    id = member(context.message.params, "sessionId")
    offer = history.of(Offers).by_session.get(id) if isinstance(id, str) else None
    if offer is None or context.sender != CLIENT or history.has_gap or not history.server.fully_read:
        return None
    return offer if offer.count <= MAX_VALUES else None


def _options(context: MessageContext[Response | Notification]) -> tuple[list[JSON], str]:
    """Return the options in a result or an update, and the JSON Pointer of the list."""
    message = context.message
    if isinstance(message, Response):
        options, pointer = member(message.result, "configOptions"), "/result/configOptions"
    else:
        options, pointer = member(message.params, "update", "configOptions"), "/params/update/configOptions"
    return options if isinstance(options, list) else [], pointer


def remember_offer(context: MessageContext[Response | Notification], history: History) -> None:
    """Record the modes and options of a session."""
    message = context.message
    if context.sender != SERVER:
        return
    if isinstance(message, Response):
        id = member(message.result, "sessionId")
        if id is None and context.answers is not None:
            id = member(context.answers.params, "sessionId")
        modes = member(message.result, "modes", "availableModes")
    else:
        id, modes = member(message.params, "sessionId"), None
    options, _ = _options(context)
    if not isinstance(id, str) or not (modes or options):
        return
    offer = get_or_make(history.of(Offers).by_session, id, Offer, MAX_SESSIONS)
    if offer.count > MAX_VALUES:
        return
    for mode in modes if isinstance(modes, list) else ():
        if isinstance(mode_id := member(mode, "id"), str):
            offer.modes.add(mode_id)
            offer.count += 1
    for option in options:
        name = member(option, "configId") or member(option, "id")
        if isinstance(name, str):
            _add_values(offer, name, option)


def _add_values(offer: Offer, name: str, option: JSON) -> None:
    """Record the values of an option, which may be in groups."""
    if member(option, "type") != "select":
        offer.values[name] = None
        return
    values = offer.values.setdefault(name, set())
    choices = member(option, "options")
    for choice in choices if isinstance(choices, list) else ():
        inner = member(choice, "options")
        for entry in inner if isinstance(inner, list) else (choice,):
            value = member(entry, "value")
            if isinstance(value, str) and values is not None:
                values.add(value)
                offer.count += 1


_LOGIN: Final = ("authenticate", "auth/login")
_OFFERING: Final = (*acp.SETUP, "session/fork", "session/set_config_option")
_UPDATE: Final = ("session/update",)
_OPTIONS_TEXT: Final = (b'"configOptions"',)
_OFFER_TEXTS: Final = (b'"configOptions"', b'"modes"')

FAMILY: Final = RuleFamily(
    checks=(
        Check(("ACP-019",), unlisted_login, (Request,), _LOGIN, ACP_ONLY),
        Check(("ACP-019",), unlisted_mode, (Request,), ("session/set_mode",), ACP_ONLY),
        Check(("ACP-019",), unlisted_value, (Request,), ("session/set_config_option",), ACP_ONLY),
        Check(("ACP-020",), undeclared_login, (Response,), ("initialize",), ACP_ONLY),
        Check(("ACP-020",), undeclared_options, (Response,), _OFFERING, ACP_ONLY, mentions=_OPTIONS_TEXT),
        Check(("ACP-020",), undeclared_options, (Notification,), _UPDATE, ACP_ONLY, mentions=_OPTIONS_TEXT),
    ),
    updates=(
        StateUpdate(remember_offer, (Response,), _OFFERING, ACP_ONLY, mentions=_OFFER_TEXTS),
        StateUpdate(remember_offer, (Notification,), _UPDATE, ACP_ONLY, mentions=_OPTIONS_TEXT),
    ),
)
