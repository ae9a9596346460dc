"""The handshake: the order of its messages, their members, and the versions; and pings.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle
"""

from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.checks.engine.context import MessageContext, Violation, as_object, member, shortened, spelled
from mcpproxy.checks.engine.rows import ANSWERS, OUT_OF_ORDER, Check, EventCheck, RuleFamily, is_the_senders
from mcpproxy.protocol import methods
from mcpproxy.protocol.jsonrpc import JSON, Batch, ErrorResponse, JSONObject, Notification, Request, Response
from mcpproxy.protocol.lifecycle import (
    CLIENT_AFTER_REFUSAL,
    CLIENT_BEFORE_HANDSHAKE,
    CLIENT_BEFORE_INITIALIZED,
    CLIENT_BEFORE_RESULT,
    SECOND_INITIALIZE,
    SERVER_BEFORE_HANDSHAKE,
    SERVER_BEFORE_INITIALIZED,
    STRAY_INITIALIZED,
    TRANSITIONS,
    Breaks,
    Input,
    State,
)
from mcpproxy.protocol.revisions import REVISIONS, STATEFUL, STATELESS, is_later
from mcpproxy.protocol.wording import kind
from mcpproxy.session.frame import Close, Sender, Severity, Signal
from mcpproxy.session.history import History, SentRequest

INITIALIZE_TIMEOUT_NS: Final = 10_000_000_000
"""How long initialize must have been unanswered before that is reported."""


def input_of(context: MessageContext, history: History) -> Input | None:
    """Return what this message means for the handshake; ``None`` if it has no part in it.

    Stateless requests are not part of the handshake. Neither is a message without era marks on a connection
    that has been only stateless so far, because it may belong to either era.
    """
    message, sender = context.message, context.sender
    if isinstance(message, Request):
        if message.method == "initialize" and sender == "client":
            return Input.INITIALIZE
        if context.stateless:
            return None
        if message.method == "ping":
            return Input.PING
        if history.stateless_seq is not None and history.stateful_seq is None:
            return None
        return Input.CLIENT_REQUEST if sender == "client" else Input.SERVER_REQUEST
    if isinstance(message, Notification):
        opens = message.method == "notifications/initialized" and sender == "client"
        return Input.INITIALIZED if opens else None
    if context.answers is None or context.answers is not history.initialize:
        return None
    # Who gets both a result and an error may go on from either.
    refused = isinstance(message, ErrorResponse) and "result" not in message.value
    return Input.INITIALIZE_ERROR if refused else Input.INITIALIZE_RESULT


def handshake_order(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report a message that the transition table forbids in this state (PROTO-005, SEQ-003, LIFE-002,
    LIFE-003).
    """
    happened = context.happened
    if happened is None:
        return ()
    breaks = TRANSITIONS[history.state][happened].breaks
    if breaks is None and history.state is not State.EAGER:
        return ()
    return _out_of_order(happened, breaks, context, history)


def _out_of_order(
    happened: Input, breaks: Breaks | None, context: MessageContext, history: History
) -> Iterator[Violation]:
    if history.over_http and happened is Input.INITIALIZED and history.state is State.EAGER:
        yield from _late_initialized(history)
    if breaks is None or (breaks == SECOND_INITIALIZE and _lawful_repeat(history)):
        return
    method = shortened(context.message.method) if isinstance(context.message, Request | Notification) else ""
    initialize = history.initialize.seq if history.initialize else 0
    problem = {
        CLIENT_BEFORE_HANDSHAKE: f"client sent {method} before initialize",
        CLIENT_BEFORE_RESULT: f"client sent {method} before initialize (frame {initialize}) was answered",
        CLIENT_BEFORE_INITIALIZED: f"client sent {method} before notifications/initialized",
        SERVER_BEFORE_HANDSHAKE: f"server sent the request {method} before the client opened the session",
        SERVER_BEFORE_INITIALIZED: f"server sent the request {method} before notifications/initialized",
        STRAY_INITIALIZED: "client sent notifications/initialized "
        + ("a second time" if history.initialized else "without a successful initialize before it"),
        SECOND_INITIALIZE: f"client sent initialize again in a session that it opened in frame {initialize}",
        CLIENT_AFTER_REFUSAL: f"client sent {method} although initialize (frame {initialize}) was refused",
    }[breaks]
    if context.frame.exchange and breaks == CLIENT_BEFORE_INITIALIZED:
        return  # One POST may overtake another: `_late_initialized` reports it once it is certain.
    stateful = tuple(revision for revision in context.candidates if revision in STATEFUL)
    yield Violation(*breaks, problem, related=(initialize,) if initialize else (), candidates=stateful)


def _late_initialized(history: History) -> Iterator[Violation]:
    """Over HTTP, initialized is late only if an earlier request has already been answered."""
    early = history.eager
    if early is not None and history.client.pending.get(early.id) is not early:
        rule, requirement = CLIENT_BEFORE_INITIALIZED
        problem = f"client sent {shortened(early.method)} before notifications/initialized"
        yield Violation(rule, requirement, problem, frame=early.seq)


def _lawful_repeat(history: History) -> bool:
    """Whether initialize may be repeated: the server refused a version and listed others."""
    return history.state is State.INITIALIZING and history.modern_answer is not None


def initialize_params(context: MessageContext[Request], history: History) -> Iterator[Violation]:
    """Report missing or mistyped members in the params of initialize (PROTO-001)."""
    message = context.message
    if context.sender != "client":
        return
    params = as_object(message.params)
    if params is None:
        yield Violation(
            "PROTO-001", "R-029", "client sent initialize without params", pointer=context.at + "/params"
        )
        return
    yield from _opening_members(params, "clientInfo", "R-029", "client", "initialize", context.at + "/params")
    yield from _capability_shapes(params.get("capabilities"), "client", context.at + "/params/capabilities")


def initialize_result(context: MessageContext[Response], history: History) -> Iterator[Violation]:
    """Report missing or mistyped members in the result of initialize (PROTO-001)."""
    message = context.message
    result = as_object(message.result)
    if result is None:
        return  # RPC-010 reports it.
    yield from _opening_members(
        result, "serverInfo", "R-030", "server", "the initialize result", context.at + "/result"
    )
    yield from _capability_shapes(result.get("capabilities"), "server", context.at + "/result/capabilities")
    if "instructions" in result and not isinstance(result["instructions"], str):
        problem = f"server sent instructions that are {kind(result['instructions'])}, not a string"
        yield Violation("PROTO-001", "R-030", problem, pointer=context.at + "/result/instructions")


def _opening_members(
    found: JSONObject, info: str, requirement: str, who: Sender, what: str, at: str
) -> Iterator[Violation]:
    """Check protocolVersion, capabilities and the implementation info, each with its type."""
    wanted: tuple[tuple[tuple[str, ...], type, str], ...] = (
        (("protocolVersion",), str, "a string"),
        (("capabilities",), dict, "an object"),
        ((info,), dict, "an object"),
        ((info, "name"), str, "a string"),
        ((info, "version"), str, "a string"),
    )
    for path, type_, article in wanted:
        parent = member(found, *path[:-1])
        if not isinstance(parent, dict):
            continue  # The parent itself is already reported.
        if path[-1] not in parent:
            problem = f"{who} sent {what} without {'.'.join(path)}"
        elif not isinstance(value := parent[path[-1]], type_):
            problem = f"{who} sent {what} with {'.'.join(path)} that is {kind(value)}, not {article}"
        else:
            continue
        yield Violation("PROTO-001", requirement, problem, pointer=at + "".join(f"/{name}" for name in path))


_FLAGS: Final = ("listChanged", "subscribe")


def _capability_shapes(capabilities: "JSON", who: Sender, at: str) -> Iterator[Violation]:
    """Check that each capability is an object, and that its listChanged and subscribe are booleans."""
    if not isinstance(capabilities, dict):
        return
    names = (
        ("roots", "sampling", "elicitation", "tasks", "experimental", "extensions")
        if who == "client"
        else (
            "tools",
            "resources",
            "prompts",
            "logging",
            "completions",
            "tasks",
            "experimental",
            "extensions",
        )
    )
    for name in names:
        if name not in capabilities:
            continue
        value = capabilities[name]
        if not isinstance(value, dict):
            problem = f"{who} declared the capability {name} as {kind(value)}, not an object"
            yield Violation("PROTO-001", "R-051", problem, pointer=f"{at}/{name}")
            continue
        for flag in _FLAGS:
            if flag in value and not isinstance(value[flag], bool):
                problem = f"{who} declared {name}.{flag} as {kind(value[flag])}, not a boolean"
                yield Violation("PROTO-001", "R-051", problem, pointer=f"{at}/{name}/{flag}")


def batched_initialize(context: MessageContext, batch: Batch, history: History) -> Iterator[Violation]:
    """Report an initialize inside a batch (LIFE-001)."""
    for index, item in enumerate(batch.items):
        asks_for = member(item.params, "protocolVersion") if isinstance(item, Request) else None
        if isinstance(item, Request) and item.method == "initialize" and asks_for == "2025-03-26":
            yield Violation(
                "LIFE-001",
                "R-031",
                "client sent initialize inside a batch",
                pointer=f"/{index}",
                candidates=("2025-03-26",),
            )


def initialize_unanswered(event: Signal | Close, history: History) -> Iterator[Violation]:
    """Report an initialize that the server never answered (SEQ-001)."""
    asked = history.initialize
    if not isinstance(event, Close) or asked is None or history.initialize_answered:
        return
    if history.blind or not history.server.was_read or event.ending in ("cut", "not started"):
        return
    if asked.seq < history.client.refused_seq:
        return  # An error without an id may be its answer.
    if history.over_http:
        return  # The HTTP exchange shows the cause: its status, its stream, its end.
    if how := history.own_end(event):
        said = f"server {how} without answering initialize ({spelled(asked.id)})"
        yield _never_answered(said, asked)
        return
    gone = history.client.closed_ns
    died = event.ending == "signalled" or event.exit_code != 0
    if died and (gone is None or (history.server.closed_ns is not None and history.server.closed_ns < gone)):
        return  # The server exited before it could answer; its exit status says more.
    until = event.observed_at_ns if gone is None else gone
    waited_ns = until - asked.at_ns
    if waited_ns >= INITIALIZE_TIMEOUT_NS:
        waited = f"{waited_ns / 1e9:.0f} s"
        problem = f"server never answered initialize ({spelled(asked.id)}), sent {waited} before the end"
        yield _never_answered(problem, asked)


def _never_answered(problem: str, asked: SentRequest) -> Violation:
    return Violation(
        "SEQ-001", "R-032", problem, blame="server", frame=asked.seq, candidates=asked.candidates
    )


def initialized_missing(event: Signal | Close, history: History) -> Iterator[Violation]:
    """Report a client that continued without ``notifications/initialized`` (SEQ-002)."""
    if not isinstance(event, Close) or history.blind or not history.client.was_read or event.ending == "cut":
        return
    if (
        history.negotiated is None
        or history.initialized
        or history.state not in (State.NEGOTIATED, State.EAGER)
    ):
        return
    if history.unconfirmed_seq is None:
        return  # The client disconnected right after the handshake, as a health check does.
    problem = f"client never sent notifications/initialized, but went on in frame {history.unconfirmed_seq}"
    yield Violation(
        "SEQ-002",
        "R-034",
        problem,
        pointer=None,
        related=(),
        blame="client",
        at_most=None,
        frame=history.unconfirmed_seq,
        candidates=(history.negotiated,),
    )


def ping_answer(context: MessageContext, history: History) -> Iterator[Violation]:
    """Report a ping that was answered with an error or with a result that is not empty (LIFE-004)."""
    asked, message = context.answers, context.message
    assert asked is not None  # its table row is for answers to a ping
    if isinstance(message, ErrorResponse):
        problem = f"{context.sender} refused the ping in frame {asked.seq}"
        yield Violation("LIFE-004", "R-040", problem, pointer=context.at + "/error", related=(asked.seq,))
    elif isinstance(message, Response) and (result := as_object(message.result)):
        extra = [name for name in result if name not in ("_meta", "resultType")]
        if extra:
            problem = (
                f"{context.sender} answered a ping with a member {shortened(extra[0])}; it must be empty"
            )
            yield Violation(
                "LIFE-004",
                "R-040",
                problem,
                pointer=context.at + "/result",
                related=(asked.seq,),
                at_most="info",
            )


def requested_version(context: MessageContext[Request], history: History) -> Iterator[Violation]:
    """Report a client that requests a version without a handshake, or an unknown one (PROTO-008)."""
    message = context.message
    if context.sender == "client":
        yield from _handshake_version(
            member(message.params, "protocolVersion"), context, "/params/protocolVersion"
        )


def answered_version(context: MessageContext[Response], history: History) -> Iterator[Violation]:
    """Report a server that answers with a version it should not choose (PROTO-008)."""
    asked, message = context.answers, context.message
    version = member(message.result, "protocolVersion")
    yield from _handshake_version(version, context, "/result/protocolVersion")
    requested = member(asked.params, "protocolVersion") if asked else None
    if asked and isinstance(requested, str) and requested in history.supported and version != requested:
        listed = history.supported[requested]
        problem = (
            f"server answered version {shortened(str(version))} to a request for {requested}, "
            f"which it listed as supported in frame {listed}"
        )
        yield Violation(
            "PROTO-008",
            "R-041",
            problem,
            pointer=context.at + "/result/protocolVersion",
            related=(asked.seq, listed),
        )


def _handshake_version(version: "JSON", context: MessageContext, pointer: str) -> Iterator[Violation]:
    if not isinstance(version, str) or version in STATEFUL:
        return  # PROTO-001 reports a missing or mistyped version.
    at_most: Severity | None = None
    if version in STATELESS:
        problem = f"{context.sender} put {version} into the handshake, a revision that has none"
    elif is_later(version):
        at_most = "info"
        problem = (
            f"{context.sender} named protocol version {version}, "
            f"which is newer than the latest that mcpproxy knows ({REVISIONS[-1]})"
        )
    else:
        problem = f'{context.sender} named protocol version "{shortened(version)}", which was never published'
    yield Violation(
        "PROTO-008", "R-042", problem, pointer=context.at + pointer, candidates=STATEFUL, at_most=at_most
    )


def foreign_method(context: MessageContext[Request], history: History) -> Iterable[Violation]:
    """Report a request that the negotiated revision does not have (PROTO-008)."""
    message, negotiated = context.message, history.negotiated
    if negotiated is None or methods.sends(context.sender, message.method, "request", negotiated):
        return ()
    if context.stateless or context.candidates != (negotiated,):
        return ()
    return _foreign_method(message, negotiated, context)


def _foreign_method(message: Request, negotiated: str, context: MessageContext) -> Iterator[Violation]:
    owners = [
        r
        for r in methods.revisions_with(message.method)
        if methods.sends(context.sender, message.method, "request", r)
    ]
    if owners and message.method != "server/discover":
        newer = REVISIONS.index(owners[0]) > REVISIONS.index(negotiated)
        where = f"it came with {owners[0]}" if newer else f"{owners[-1]} was the last to have it"
        problem = f"{context.sender} sent {message.method}, which {negotiated} does not have ({where})"
        yield Violation("PROTO-008", "R-043", problem, pointer=context.at + "/method")


FAMILY: Final = RuleFamily(
    checks=(
        Check(("PROTO-005", "SEQ-003", "LIFE-003"), handshake_order, (Request,), given=OUT_OF_ORDER),
        Check(
            ("LIFE-002", "SEQ-003"),
            handshake_order,
            (Notification,),
            ("notifications/initialized",),
            given=OUT_OF_ORDER,
        ),
        Check(("PROTO-001",), initialize_params, (Request,), ("initialize",)),
        Check(("PROTO-001",), initialize_result, (Response,), ("initialize",)),
        Check(("PROTO-008",), requested_version, (Request,), ("initialize",)),
        Check(("PROTO-008",), answered_version, (Response,), ("initialize",)),
        Check(("PROTO-008",), foreign_method, (Request,), unless=is_the_senders),
        Check(("LIFE-004",), ping_answer, ANSWERS, ("ping",)),
    ),
    events=(
        EventCheck(("SEQ-001",), initialize_unanswered),
        EventCheck(("SEQ-002",), initialized_missing),
    ),
)
