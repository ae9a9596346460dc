"""The handshake: the order of its messages, their members, and the protocol versions in it. Also pings.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle
"""

from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.judge.checks.basic.unanswered_initialize import initialize_unanswered
from mcpproxy.judge.checks.engine.context import MessageContext, Violation, shortened
from mcpproxy.judge.checks.engine.rows import (
    ANSWERS,
    OUT_OF_ORDER,
    Check,
    EventCheck,
    RuleFamily,
    sender_may_send,
)
from mcpproxy.judge.session.frame import Close, Sender, Severity, Signal
from mcpproxy.judge.session.history import History
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
from mcpproxy.protocol.message_parts import as_object, member
from mcpproxy.protocol.revisions import REVISIONS, STATEFUL, STATELESS, is_later
from mcpproxy.protocol.wording import kind


def input_of(context: MessageContext, history: History) -> Input | None:
    """Return the step that this message takes in the handshake; ``None`` if it takes none.

    A stateless request other than the client's initialize takes none. After a stateless request, and as long
    as there was no initialize, a request other than initialize and ping takes none either, because it may be
    a faulty stateless request.
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
        is_initialized = message.method == "notifications/initialized" and sender == "client"
        return Input.INITIALIZED if is_initialized else None
    if context.answers is None or context.answers is not history.initialize:
        return None
    # An answer with both a result and an error counts as a result, because the client may use the result.
    is_refusal = isinstance(message, ErrorResponse) and "result" not in message.value
    return Input.INITIALIZE_ERROR if is_refusal else Input.INITIALIZE_RESULT


def handshake_order(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report a message that may not come in this state of the handshake (PROTO-005, SEQ-003, LIFE-002,
    LIFE-003).
    """
    step = context.happened  # what ``input_of`` returned for this message
    if step is None:
        return ()
    breaks = TRANSITIONS[history.state][step].breaks
    # EAGER: the client has sent a request before notifications/initialized.
    if breaks is None and history.state is not State.EAGER:
        return ()
    return _out_of_order(step, breaks, context, history)


def _out_of_order(
    step: Input, breaks: Breaks | None, context: MessageContext, history: History
) -> Iterator[Violation]:
    if history.over_http and step is Input.INITIALIZED and history.state is State.EAGER:
        yield from _late_initialized(history)
    if breaks is None or (breaks == SECOND_INITIALIZE and _may_repeat_initialize(history)):
        return
    waits = breaks in (CLIENT_BEFORE_RESULT, STRAY_INITIALIZED) and not history.initialized
    if waits and history.initialize and not history.server.fully_read:
        return  # An unreadable message may have been the result.
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
        return  # Over HTTP one POST may overtake another: ``_late_initialized`` reports it if it is certain.
    stateful = tuple(revision for revision in context.candidates if revision in STATEFUL)
    yield Violation(*breaks, problem, related=(initialize,) if initialize else (), candidates=stateful)


def _late_initialized(history: History) -> Iterator[Violation]:
    """Report a request that the client sent before this notifications/initialized, over HTTP (SEQ-003).

    One POST may overtake another, so the order is certain only if the request was answered before.
    """
    request = history.request_before_initialized
    if request is not None and history.client.pending.get(request.id) is not request:
        rule, requirement = CLIENT_BEFORE_INITIALIZED
        problem = f"client sent {shortened(request.method)} before notifications/initialized"
        yield Violation(rule, requirement, problem, frame=request.seq)


def _may_repeat_initialize(history: History) -> bool:
    """Whether an unanswered initialize may be repeated: a ``ModernAnswer`` did not list its version."""
    answer, initialize = history.modern_answer, history.initialize
    if history.state is not State.INITIALIZING or answer is None or initialize is None:
        return False
    return member(initialize.params, "protocolVersion") not in answer.versions


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
    yield from _handshake_members(
        params, "clientInfo", "R-029", "client", "initialize", context.at + "/params"
    )
    yield from _capability_types(params.get("capabilities"), "client", context.at + "/params/capabilities")


def initialize_result(context: MessageContext[Response], history: History) -> Iterator[Violation]:
    """Report missing or mistyped members in the result of initialize (PROTO-001)."""
    message = context.message
    result = as_object(message.result)
    if result is None:
        return  # RPC-010 reports it.
    yield from _handshake_members(
        result, "serverInfo", "R-030", "server", "the initialize result", context.at + "/result"
    )
    yield from _capability_types(result.get("capabilities"), "server", context.at + "/result/capabilities")
    if "instructions" in result and not isinstance(result["instructions"], str):
        problem = f"server sent instructions that are {kind(result['instructions'])}, not a string"
        yield Violation("PROTO-001", "R-030", problem, pointer=context.at + "/result/instructions")


def _handshake_members(
    contents: JSONObject, info: str, requirement: str, sender: Sender, what: str, pointer: str
) -> Iterator[Violation]:
    """Report missing or mistyped members in the params or result of initialize.

    ``info`` is the name of the member that describes the sender's implementation. ``what`` names the params
    or the result in words, and ``pointer`` is their JSON Pointer.
    """
    required: tuple[tuple[tuple[str, ...], type, str], ...] = (
        (("protocolVersion",), str, "a string"),
        (("capabilities",), dict, "an object"),
        ((info,), dict, "an object"),
        ((info, "name"), str, "a string"),
        ((info, "version"), str, "a string"),
    )
    for path, type_, type_name in required:
        parent = member(contents, *path[:-1])
        if not isinstance(parent, dict):
            continue  # The parent itself is already reported.
        if path[-1] not in parent:
            problem = f"{sender} sent {what} without {'.'.join(path)}"
        elif not isinstance(value := parent[path[-1]], type_):
            problem = f"{sender} sent {what} with {'.'.join(path)} that is {kind(value)}, not {type_name}"
        else:
            continue
        yield Violation(
            "PROTO-001", requirement, problem, pointer=pointer + "".join(f"/{name}" for name in path)
        )


_FLAGS: Final = ("listChanged", "subscribe")


def _capability_types(capabilities: "JSON", sender: Sender, pointer: str) -> Iterator[Violation]:
    """Report a capability that is not an object, or whose listChanged or subscribe is not a boolean."""
    if not isinstance(capabilities, dict):
        return
    names = (
        ("roots", "sampling", "elicitation", "tasks", "experimental", "extensions")
        if sender == "client"
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
            problem = f"{sender} declared the capability {name} as {kind(value)}, not an object"
            yield Violation("PROTO-001", "R-051", problem, pointer=f"{pointer}/{name}")
            continue
        for flag in _FLAGS:
            if flag in value and not isinstance(value[flag], bool):
                problem = f"{sender} declared {name}.{flag} as {kind(value[flag])}, not a boolean"
                yield Violation("PROTO-001", "R-051", problem, pointer=f"{pointer}/{name}/{flag}")


def batched_initialize(context: MessageContext, batch: Batch, history: History) -> Iterator[Violation]:
    """Report an initialize inside a batch, if it asks for the only revision with batches (LIFE-001)."""
    for index, item in enumerate(batch.items):
        version = member(item.params, "protocolVersion") if isinstance(item, Request) else None
        if isinstance(item, Request) and item.method == "initialize" and version == "2025-03-26":
            yield Violation(
                "LIFE-001",
                "R-031",
                "client sent initialize inside a batch",
                pointer=f"/{index}",
                candidates=("2025-03-26",),
            )


def initialized_missing(event: Signal | Close, history: History) -> Iterator[Violation]:
    """Report a client that continued without ``notifications/initialized`` (SEQ-002)."""
    if (
        not isinstance(event, Close)
        or history.has_gap
        or not history.client.fully_read
        or event.ending == "cut"
    ):
        return
    if (
        history.negotiated is None
        or history.initialized
        or history.state not in (State.NEGOTIATED, State.EAGER)
    ):
        return
    seq = history.instead_of_initialized_seq
    if seq is None:
        return  # The client disconnected right after the handshake, as a health check does.
    problem = f"client never sent notifications/initialized, but went on in frame {seq}"
    yield Violation(
        "SEQ-002",
        "R-034",
        problem,
        blame="client",
        frame=seq,
        candidates=(history.negotiated,),
    )


def ping_answer(context: MessageContext, history: History) -> Iterator[Violation]:
    """Report a ping that was answered with an error or with a result that is not empty (LIFE-004).

    ``_meta`` and ``resultType`` may be in the result.
    """
    request, message = context.answers, context.message
    assert request is not None  # The row of this check in ``FAMILY`` is for answers to a ping.
    if isinstance(message, ErrorResponse):
        problem = f"{context.sender} refused the ping in frame {request.seq}"
        yield Violation("LIFE-004", "R-040", problem, pointer=context.at + "/error", related=(request.seq,))
    elif isinstance(message, Response) and (result := as_object(message.result)):
        names = [name for name in result if name not in ("_meta", "resultType")]
        if names:
            problem = (
                f"{context.sender} answered a ping with the member {shortened(names[0])}; "
                "the result must be empty"
            )
            yield Violation(
                "LIFE-004",
                "R-040",
                problem,
                pointer=context.at + "/result",
                related=(request.seq,),
                at_most="info",
            )


def requested_version(context: MessageContext[Request], history: History) -> Iterator[Violation]:
    """Report an initialize for a version whose revision has no handshake or is not known (PROTO-008)."""
    message = context.message
    if context.sender == "client":
        yield from _version_fault(
            member(message.params, "protocolVersion"), context, "/params/protocolVersion"
        )


def answered_version(context: MessageContext[Response], history: History) -> Iterator[Violation]:
    """Report an initialize result with a version that the server should not choose (PROTO-008)."""
    request, message = context.answers, context.message
    version = member(message.result, "protocolVersion")
    yield from _version_fault(version, context, "/result/protocolVersion")
    requested = member(request.params, "protocolVersion") if request else None
    if (
        request
        and isinstance(requested, str)
        and requested in history.supported_versions
        and version != requested
    ):
        list_seq = history.supported_versions[requested]
        problem = (
            f"server answered version {shortened(str(version))} to a request for {requested}, "
            f"which it listed as supported in frame {list_seq}"
        )
        yield Violation(
            "PROTO-008",
            "R-041",
            problem,
            pointer=context.at + "/result/protocolVersion",
            related=(request.seq, list_seq),
        )


def _version_fault(version: "JSON", context: MessageContext, pointer: str) -> Iterator[Violation]:
    """Report a ``protocolVersion`` in the handshake that names a stateless or an unknown revision
    (PROTO-008).
    """
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


def method_of_other_revision(context: MessageContext[Request], history: History) -> Iterable[Violation]:
    """Report a request that another revision has, but not the negotiated one (PROTO-008).

    server/discover is not reported, because it may be sent to find out which revisions the server has.
    """
    message, negotiated = context.message, history.negotiated
    if negotiated is None or methods.sends(context.sender, message.method, "request", negotiated):
        return ()
    if context.stateless or context.candidates != (negotiated,):
        return ()
    return _method_of_other_revision(message, negotiated, context)


def _method_of_other_revision(
    message: Request, negotiated: str, context: MessageContext
) -> Iterator[Violation]:
    revisions = [
        r
        for r in methods.revisions_with(message.method)
        if methods.sends(context.sender, message.method, "request", r)
    ]
    if revisions and message.method != "server/discover":
        is_newer = REVISIONS.index(revisions[0]) > REVISIONS.index(negotiated)
        where = f"it came with {revisions[0]}" if is_newer else f"{revisions[-1]} was the last to have it"
        problem = f"{context.sender} sent {message.method}, which {negotiated} does not have ({where})"
        yield Violation("PROTO-008", "R-043", problem, pointer=context.at + "/method")


# Here ``sender_may_send`` excludes each request that its sender may send in one of the candidate revisions.
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
        Check(("PROTO-008",), method_of_other_revision, (Request,), unless=sender_may_send),
        Check(("LIFE-004",), ping_answer, ANSWERS, ("ping",)),
    ),
    events=(
        EventCheck(("SEQ-001",), initialize_unanswered),
        EventCheck(("SEQ-002",), initialized_missing),
    ),
)
