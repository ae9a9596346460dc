"""Multi round-trip requests: a result that asks for input, and the retried request that carries it.

A retry is matched to a result by the ``requestState`` that it repeats. Without a state it is matched by its
own parameters, and only on the same connection, because over HTTP any client may make the same request. A
round before the recording is not reported as missing.

Source: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
"""

from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.checks.basic.embedded import TELLING, Ask, asks
from mcpproxy.checks.engine.context import MessageContext, Violation, as_object, member, shortened
from mcpproxy.checks.engine.rows import Check, RuleFamily, StateUpdate
from mcpproxy.checks.stateless.rounds import (
    SUPPORTED,
    Round,
    Rounds,
    bare,
    remember_declared,
    remember_retry,
    remember_round,
    rounds,
)
from mcpproxy.protocol import methods
from mcpproxy.protocol.jsonrpc import JSON, JSONObject, Request, Response
from mcpproxy.protocol.methods import Need, applies, declares, needs
from mcpproxy.protocol.revisions import CAPABILITIES_KEY, STATELESS, stateless_of
from mcpproxy.protocol.wording import token
from mcpproxy.session.frame import CLIENT, SERVER
from mcpproxy.session.history import History

OTHERS: Final = tuple(
    method
    for method in methods.names(*STATELESS)
    if method not in SUPPORTED and methods.sends_in_any(CLIENT, method, "request", STATELESS)
)
"""The other requests of the revision. Requests of an extension have parameters of their own."""

WHOLE: Final = ("PROTO-009", "R-256")
PARTS: Final = {
    "form": ("PROTO-009", "R-052"),
    "url": ("PROTO-009", "R-052"),
    "tools": ("PROTO-009", "R-053"),
    "context": ("PROTO-009", "R-054"),
}
"""The requirement for a missing capability, and the one for a missing part of it."""


# The server asks


def question(context: MessageContext, history: History) -> Iterable[Violation]:
    """MRTR-001, MRTR-002, MRTR-003, MRTR-004, PROTO-009"""
    message = context.message
    assert isinstance(message, Response)
    result = message.result
    if not context.stateless or not isinstance(result, dict) or result.get("resultType") != "input_required":
        return ()
    return _question(result, context, history)


def _question(result: JSONObject, context: MessageContext, history: History) -> Iterator[Violation]:
    asked, at = context.answers, context.at + "/result"
    assert asked is not None
    if asked.method not in SUPPORTED:
        said = f"server asked for input in answer to {shortened(asked.method)}"
        yield Violation("MRTR-001", "R-253", said, pointer=at + "/resultType", related=(asked.seq,))
    if "inputRequests" not in result and "requestState" not in result:
        said = f"server answered {asked.method} with input_required, without inputRequests and requestState"
        yield Violation("MRTR-002", "R-254", said, pointer=at, related=(asked.seq,))
    for key, entry in (as_object(result.get("inputRequests")) or {}).items():
        if isinstance(entry, dict) and (extra := [name for name in ("jsonrpc", "id") if name in entry]):
            said = f"server wrapped the input request {shortened(key)} up like a message, with {extra[0]}"
            pointer = f"{at}/inputRequests{token(key)}/{extra[0]}"
            yield Violation("MRTR-003", "R-255", said, pointer=pointer, at_most="warning")
    yield from _undeclared(context, history)


def _undeclared(context: MessageContext, history: History) -> Iterator[Violation]:
    """What the request did not declare, regardless of earlier declarations."""
    asked = context.answers
    assert asked is not None
    declared = as_object(member(asked.params, "_meta", CAPABILITIES_KEY))
    if declared is None:
        return  # STAT-001 reports it.
    for ask in asks(context):
        need = _unmet(ask, declared, stateless_of(context.candidates)[0])
        if need is None:
            continue
        said = f"server asked for {ask.method}, but frame {asked.seq} does not declare {need.path}"
        earlier = [
            seq
            for connection, seq, capabilities in rounds(history).declared
            if connection == context.frame.connection
            and seq < asked.seq
            and declares(capabilities, need.path)
        ]
        if earlier:
            said += f", as frame {earlier[-1]} did"
            yield Violation("MRTR-004", "R-256", said, pointer=ask.at, related=(asked.seq, earlier[-1]))
        else:
            part = need.path.partition(".")[0] in declared
            yield Violation(
                *(PARTS[need.condition] if part else WHOLE), said, pointer=ask.at, related=(asked.seq,)
            )


def _unmet(ask: Ask, declared: JSONObject, revision: str) -> Need | None:
    for need in needs(ask.method, revision):
        if not applies(need, as_object(ask.params)) or declares(declared, need.path):
            continue
        elicitation = as_object(declared.get("elicitation"))
        if need.condition == "form" and elicitation and "url" not in elicitation:
            continue  # A declaration without any mode is the client's fault.
        return need  # One missing declaration is reported once, not again for its parts.
    return None


# The client answers


def misplaced(context: MessageContext, history: History) -> Iterable[Violation]:
    """MRTR-009: on a request that no result can have asked for it"""
    message = context.message
    assert isinstance(message, Request)
    if not context.stateless or not isinstance(message.params, dict):
        return ()
    names = [name for name in ("inputResponses", "requestState") if name in message.params]
    if not names or any(earlier.asked.method == message.method for earlier in rounds(history).latest):
        return ()  # If a result did ask for it, that was the server's fault.
    said = f"client sent {message.method} with {names[0]}"
    return (Violation("MRTR-009", "R-261", said, pointer=f"{context.at}/params/{names[0]}"),)


def retry(context: MessageContext, history: History) -> Iterable[Violation]:
    """MRTR-005, MRTR-006, MRTR-007, MRTR-008, MRTR-009, MRTR-010"""
    message = context.message
    assert isinstance(message, Request)
    params = message.params
    if not context.stateless or not isinstance(params, dict):
        return ()
    if "requestState" in params:
        unseen = history.blind or history.scattered
        return _with_state(message, params, context, rounds(history), unseen)
    if "inputResponses" in params:
        return _without_state(message, params, context, rounds(history), history)
    return ()


def _with_state(
    request: Request, params: JSONObject, context: MessageContext, known: Rounds, unseen: bool
) -> Iterator[Violation]:
    state, at = params["requestState"], context.at + "/params/requestState"
    same = [earlier for earlier in known.latest if earlier.state == state and earlier.state is not None]
    taken_up = [earlier for earlier in same if earlier.concerns(request)]
    if taken_up:
        yield from _taken_up(request, params, taken_up, context, known)
    elif same:
        said = (
            f"client sent the requestState of frame {same[-1].seq} with another request than it was given for"
        )
        yield Violation("MRTR-009", "R-261", said, pointer=at, related=(same[-1].seq,))
    elif unseen:
        return  # The result that gave the state may not have been recorded.
    elif repeated := known.repeated(request, context.frame.connection):
        last = repeated[-1]
        if all(earlier.state is None for earlier in repeated):
            said = f"client sent a requestState, although frame {last.seq} gave none"
        elif all(earlier.state is not None for earlier in repeated):
            said = f"client sent another requestState than frame {last.seq} gave"
        else:
            return
        yield Violation("MRTR-006", "R-258", said, pointer=at, related=(last.seq,))


def _without_state(
    request: Request, params: JSONObject, context: MessageContext, known: Rounds, history: History
) -> Iterator[Violation]:
    given, at = as_object(params["inputResponses"]) or {}, context.at + "/params"
    repeated = known.repeated(request, context.frame.connection)
    fitting = [earlier for earlier in repeated if not given or given.keys() & earlier.wanted.keys()]
    if stateless := [earlier for earlier in fitting if earlier.state is None]:
        yield from _taken_up(request, params, stateless, context, known)
    elif fitting:
        said = f"client left out the requestState that frame {fitting[-1].seq} gave"
        yield Violation("MRTR-006", "R-258", said, pointer=at, related=(fitting[-1].seq,))
    elif not any(earlier.concerns(request) for earlier in known.latest):
        others = [earlier for earlier in known.latest if given.keys() & earlier.wanted.keys()]
        if others:
            said = (
                f"client sent {request.method} with the input that frame {others[-1].seq} asked for elsewhere"
            )
            yield Violation(
                "MRTR-009",
                "R-261",
                said,
                pointer=at + "/inputResponses",
                related=(others[-1].seq,),
                at_most="warning",
            )
        elif (
            not history.over_http and not history.blind
        ):  # Another instance of the same server may have asked for it.
            said = f"client sent {request.method} with inputResponses that nothing here asked for"
            yield Violation("MRTR-009", "R-261", said, pointer=at + "/inputResponses", at_most="info")


def _taken_up(
    request: Request, params: JSONObject, earlier: list[Round], context: MessageContext, known: Rounds
) -> Iterator[Violation]:
    """The faults of a retry that hold for every round it may belong to."""
    last, at = earlier[-1], context.at
    given = as_object(params.get("inputResponses", {}))
    if newer := _outdated(given or {}, earlier):
        said = f"client sent the requestState of frame {last.seq} with the input for frame {newer.seq}"
        yield Violation(
            "MRTR-006", "R-258", said, pointer=at + "/params/requestState", related=(last.seq, newer.seq)
        )
        return
    if all(one.asked.id == request.id for one in earlier):
        said = f"client made the request in frame {last.asked.seq} anew under the same id"
        yield Violation("MRTR-005", "R-257", said, pointer=at + "/id", related=(last.asked.seq,))
    changed = all(bare(one.asked.params) != bare(params) for one in earlier)
    if changed and (others := known.repeated(request, context.frame.connection)):
        meant = others[-1].asked.seq
        said = f"client sent the requestState of frame {last.seq} with the request of frame {meant}"
        pointer = at + "/params/requestState"
        yield Violation("MRTR-009", "R-261", said, pointer=pointer, related=(last.seq, others[-1].seq))
        return
    if changed:
        said = f"client made the request in frame {last.asked.seq} anew with other parameters"
        yield Violation("MRTR-010", "R-262", said, pointer=at + "/params", related=(last.asked.seq,))
    if given is None:
        return  # It is not an object: MRTR-008 reports it.
    if foreign := _foreign(given, earlier, known):
        key, one = foreign
        said = f"client answered {shortened(key)}, which frame {one.seq} asked for another request"
        pointer = at + "/params/inputResponses" + token(key)
        related = (last.seq, one.seq)
        yield Violation("MRTR-009", "R-261", said, pointer=pointer, related=related, at_most="warning")
        return
    if all(one.wanted.keys() - given.keys() for one in earlier):
        missing = next(iter(one for one in last.wanted if one not in given))
        said = f"client did not answer the input request {shortened(missing)} of frame {last.seq}"
        yield Violation(
            "MRTR-007",
            "R-259",
            said,
            pointer=at + "/params/inputResponses",
            related=(last.seq,),
            at_most="warning",
        )
    yield from _answers(given, earlier, at + "/params/inputResponses")


def _outdated(given: JSONObject, earlier: list[Round]) -> Round | None:
    """The later round that was answered, if the state belongs to one that was continued long ago."""
    newer = earlier[-1].next
    if (
        newer is None
        or not given
        or any(one.next is None or given.keys() & one.wanted.keys() for one in earlier)
    ):
        return None
    return newer if given.keys() <= newer.wanted.keys() else None


def _foreign(given: JSONObject, earlier: list[Round], known: Rounds) -> tuple[str, Round] | None:
    """The first input that none of these rounds asked for, and the round of another request that did."""
    for key in given:
        if any(key in one.wanted or key in one.wanted_before for one in earlier):
            continue
        for other in reversed(known.latest):
            params = bare(other.asked.params)
            if key in other.wanted and all(params != bare(one.asked.params) for one in earlier):
                return key, other
    return None


def _answers(given: JSONObject, earlier: list[Round], at: str) -> Iterator[Violation]:
    """Check each input response by itself: whether it was requested, and with which method."""
    for key, value in given.items():
        wanted = {one.wanted.get(key) for one in earlier}
        before = any(key in one.wanted_before for one in earlier)
        if wanted == {None} and not before:
            said = f"client answered {shortened(key)}, which frame {earlier[-1].seq} did not ask for"
            yield Violation(
                "MRTR-007", "R-259", said, pointer=at + token(key), related=(earlier[-1].seq,), at_most="info"
            )
        shown = _shown(value)
        if shown and wanted != {None} and shown not in wanted:
            asked_for = " or ".join(sorted(str(method) for method in wanted if method))
            said = f"client answered {shortened(key)} with a result of {shown}; it was {asked_for}"
            yield Violation("MRTR-008", "R-260", said, pointer=at + token(key), related=(earlier[-1].seq,))


def _shown(value: "JSON") -> str:
    """The method of a result, derived from its members; empty if they do not agree on one."""
    shows = [method for name, method in TELLING.items() if isinstance(value, dict) and name in value]
    return shows[0] if len(shows) == 1 else ""


ANSWERED: Final = ("inputResponses", "requestState")
RESULT_TYPE: Final = ("resultType",)
ASKED: Final = (b'"input_required"',)

FAMILY: Final = RuleFamily(
    checks=(
        Check(
            ("MRTR-001", "MRTR-002", "MRTR-003", "MRTR-004", "PROTO-009"),
            question,
            ("response",),
            sender=SERVER,
            within=STATELESS,
            members=RESULT_TYPE,
            mentions=ASKED,
        ),
        Check(
            ("MRTR-005", "MRTR-006", "MRTR-007", "MRTR-008", "MRTR-009", "MRTR-010"),
            retry,
            ("request",),
            SUPPORTED,
            sender=CLIENT,
            within=STATELESS,
            members=ANSWERED,
        ),
        Check(
            ("MRTR-009",),
            misplaced,
            ("request",),
            OTHERS,
            sender=CLIENT,
            within=STATELESS,
            members=ANSWERED,
        ),
    ),
    updates=(
        StateUpdate(
            remember_declared,
            ("request",),
            sender=CLIENT,
            within=STATELESS,
            members=("_meta",),
            mentions=(b'"elicitation"', b'"sampling"', b'"roots"'),
        ),
        StateUpdate(
            remember_retry, ("request",), SUPPORTED, sender=CLIENT, within=STATELESS, members=ANSWERED
        ),
        StateUpdate(
            remember_round,
            ("response",),
            sender=SERVER,
            within=STATELESS,
            members=RESULT_TYPE,
            mentions=ASKED,
        ),
    ),
)
