"""Multi round-trip requests: a result that asks for input, and the retried request that carries it.

A retry is matched to a result by the ``requestState`` that it repeats. Without a state it is matched by its
own parameters, and only on the same connection, because over HTTP any client may make the same request. A
result may come from before the recording, so a retry that matches none is not always reported.

Source: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
"""

from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.checks.basic.embedded import Ask, asks, method_shown_by
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
from mcpproxy.protocol.jsonrpc import JSONObject, Request, Response
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
"""The client's requests whose results cannot ask for input.

Those of extensions are left out, because an extension may define members of the same names.
"""

MISSING_CAPABILITY: Final = ("PROTO-009", "R-256")
MISSING_PART: Final = {
    "form": ("PROTO-009", "R-052"),
    "url": ("PROTO-009", "R-052"),
    "tools": ("PROTO-009", "R-053"),
    "context": ("PROTO-009", "R-054"),
}
"""Rule and requirement for a missing capability, and for a missing part of one by ``Need.condition``."""


# Results that ask for input


def question(context: MessageContext[Response], history: History) -> Iterable[Violation]:
    """Report faults in a request for input (MRTR-001, MRTR-002, MRTR-003, MRTR-004, PROTO-009)."""
    message = context.message
    result = message.result
    if not context.stateless or not isinstance(result, dict) or result.get("resultType") != "input_required":
        return ()
    return _question(result, context, history)


def _question(result: JSONObject, context: MessageContext, history: History) -> Iterator[Violation]:
    asked, at = context.answers, context.at + "/result"
    assert asked is not None
    if asked.method not in SUPPORTED:
        problem = f"server asked for input in answer to {shortened(asked.method)}"
        yield Violation("MRTR-001", "R-253", problem, pointer=at + "/resultType", related=(asked.seq,))
    if "inputRequests" not in result and "requestState" not in result:
        problem = (
            f"server answered {asked.method} with input_required, without inputRequests and requestState"
        )
        yield Violation("MRTR-002", "R-254", problem, pointer=at, related=(asked.seq,))
    for key, entry in (as_object(result.get("inputRequests")) or {}).items():
        if isinstance(entry, dict) and (extra := [name for name in ("jsonrpc", "id") if name in entry]):
            problem = f"server wrapped the input request {shortened(key)} like a message, with {extra[0]}"
            pointer = f"{at}/inputRequests{token(key)}/{extra[0]}"
            yield Violation("MRTR-003", "R-255", problem, pointer=pointer, at_most="warning")
    yield from _undeclared(context, history)


def _undeclared(context: MessageContext, history: History) -> Iterator[Violation]:
    """Report input requests that need a capability which the answered request did not declare.

    Capabilities that an earlier request declared do not count.
    """
    asked = context.answers
    assert asked is not None
    declared = as_object(member(asked.params, "_meta", CAPABILITIES_KEY))
    if declared is None:
        return  # STAT-001 reports it.
    for ask in asks(context):
        need = _unmet(ask, declared, stateless_of(context.candidates)[0])
        if need is None:
            continue
        problem = f"server asked for {ask.method}, but frame {asked.seq} does not declare {need.path}"
        earlier = [
            seq
            for connection, seq, capabilities in rounds(history).declared
            if connection == context.frame.connection
            and seq < asked.seq
            and declares(capabilities, need.path)
        ]
        if earlier:
            problem += f", as frame {earlier[-1]} did"
            yield Violation("MRTR-004", "R-256", problem, pointer=ask.at, related=(asked.seq, earlier[-1]))
        else:
            is_part = need.path.partition(".")[0] in declared
            yield Violation(
                *(MISSING_PART[need.condition] if is_part else MISSING_CAPABILITY),
                problem,
                pointer=ask.at,
                related=(asked.seq,),
            )


def _unmet(ask: Ask, declared: JSONObject, revision: str) -> Need | None:
    """Return the first capability that an input request needs and that is not declared."""
    for need in needs(ask.method, revision):
        if not applies(need, as_object(ask.params)) or declares(declared, need.path):
            continue
        elicitation = as_object(declared.get("elicitation"))
        if need.condition == "form" and elicitation and "url" not in elicitation:
            continue  # The client declared neither form nor url, which is its own fault.
        return need  # One missing declaration is reported once, not again for its parts.
    return None


# Retries


def misplaced(context: MessageContext[Request], history: History) -> Iterable[Violation]:
    """Report inputResponses or requestState in a request of ``OTHERS`` (MRTR-009)."""
    message = context.message
    if not context.stateless or not isinstance(message.params, dict):
        return ()
    names = [name for name in ("inputResponses", "requestState") if name in message.params]
    if not names or any(earlier.asked.method == message.method for earlier in rounds(history).latest):
        return ()  # If a result did ask for it, that was the server's fault.
    problem = f"client sent {message.method} with {names[0]}"
    return (Violation("MRTR-009", "R-261", problem, pointer=f"{context.at}/params/{names[0]}"),)


def retry(context: MessageContext[Request], history: History) -> Iterable[Violation]:
    """Report faults in a retried request (MRTR-005, MRTR-006, MRTR-007, MRTR-008, MRTR-009, MRTR-010)."""
    message = context.message
    params = message.params
    if not context.stateless or not isinstance(params, dict):
        return ()
    if "requestState" in params:
        unseen = history.has_gap or history.may_lack_messages
        return _with_state(message, params, context, rounds(history), unseen)
    if "inputResponses" in params:
        return _without_state(message, params, context, rounds(history), history)
    return ()


def _with_state(
    request: Request, params: JSONObject, context: MessageContext, known: Rounds, unseen: bool
) -> Iterator[Violation]:
    state, at = params["requestState"], context.at + "/params/requestState"
    same = [earlier for earlier in known.latest if earlier.state == state and earlier.state is not None]
    continued = [earlier for earlier in same if earlier.concerns(request)]
    if continued:
        yield from _check_retry(request, params, continued, context, known)
    elif same:
        problem = (
            f"client sent the requestState of frame {same[-1].seq} with another request than it was given for"
        )
        yield Violation("MRTR-009", "R-261", problem, pointer=at, related=(same[-1].seq,))
    elif unseen:
        return  # The result that gave the state may not have been recorded.
    elif repeated := known.repeated(request, context.frame.connection):
        last = repeated[-1]
        if all(earlier.state is None for earlier in repeated):
            problem = f"client sent a requestState, although frame {last.seq} gave none"
        elif all(earlier.state is not None for earlier in repeated):
            problem = f"client sent another requestState than frame {last.seq} gave"
        else:
            return
        yield Violation("MRTR-006", "R-258", problem, pointer=at, related=(last.seq,))


def _without_state(
    request: Request, params: JSONObject, context: MessageContext, known: Rounds, history: History
) -> Iterator[Violation]:
    given, at = as_object(params["inputResponses"]) or {}, context.at + "/params"
    repeated = known.repeated(request, context.frame.connection)
    fitting = [earlier for earlier in repeated if not given or given.keys() & earlier.wanted.keys()]
    if without_state := [earlier for earlier in fitting if earlier.state is None]:
        yield from _check_retry(request, params, without_state, context, known)
    elif fitting:
        problem = f"client left out the requestState that frame {fitting[-1].seq} gave"
        yield Violation("MRTR-006", "R-258", problem, pointer=at, related=(fitting[-1].seq,))
    elif not any(earlier.concerns(request) for earlier in known.latest):
        others = [earlier for earlier in known.latest if given.keys() & earlier.wanted.keys()]
        if others:
            problem = (
                f"client sent {request.method} with the input that frame {others[-1].seq} asked for elsewhere"
            )
            yield Violation(
                "MRTR-009",
                "R-261",
                problem,
                pointer=at + "/inputResponses",
                related=(others[-1].seq,),
                at_most="warning",
            )
        elif not history.over_http and not history.has_gap:
            # Over HTTP another instance of the server may have asked for it.
            problem = f"client sent {request.method} with inputResponses that no result asked for"
            yield Violation("MRTR-009", "R-261", problem, pointer=at + "/inputResponses", at_most="info")


def _check_retry(
    request: Request, params: JSONObject, earlier: list[Round], context: MessageContext, known: Rounds
) -> Iterator[Violation]:
    """Report the faults of a retry.

    It may continue any of the rounds ``earlier``, so only what is a fault with all of them is reported.
    """
    last, at = earlier[-1], context.at
    given = as_object(params.get("inputResponses", {}))
    if newer := _outdated(given or {}, earlier):
        problem = f"client sent the requestState of frame {last.seq} with the input for frame {newer.seq}"
        yield Violation(
            "MRTR-006", "R-258", problem, pointer=at + "/params/requestState", related=(last.seq, newer.seq)
        )
        return
    if all(one.asked.id == request.id for one in earlier):
        problem = f"client retried the request in frame {last.asked.seq} under the same id"
        yield Violation("MRTR-005", "R-257", problem, pointer=at + "/id", related=(last.asked.seq,))
    changed = all(bare(one.asked.params) != bare(params) for one in earlier)
    if changed and (others := known.repeated(request, context.frame.connection)):
        meant = others[-1].asked.seq
        problem = f"client sent the requestState of frame {last.seq} with the request of frame {meant}"
        pointer = at + "/params/requestState"
        yield Violation("MRTR-009", "R-261", problem, pointer=pointer, related=(last.seq, others[-1].seq))
        return
    if changed:
        problem = f"client retried the request in frame {last.asked.seq} with other parameters"
        yield Violation("MRTR-010", "R-262", problem, pointer=at + "/params", related=(last.asked.seq,))
    if given is None:
        return  # It is not an object: the test of its shape reports MRTR-008.
    if foreign := _foreign(given, earlier, known):
        key, one = foreign
        problem = f"client answered {shortened(key)}, which frame {one.seq} asked for another request"
        pointer = at + "/params/inputResponses" + token(key)
        related = (last.seq, one.seq)
        yield Violation("MRTR-009", "R-261", problem, pointer=pointer, related=related, at_most="warning")
        return
    if all(one.wanted.keys() - given.keys() for one in earlier):
        missing = next(iter(one for one in last.wanted if one not in given))
        problem = f"client did not answer the input request {shortened(missing)} of frame {last.seq}"
        yield Violation(
            "MRTR-007",
            "R-259",
            problem,
            pointer=at + "/params/inputResponses",
            related=(last.seq,),
            at_most="warning",
        )
    yield from _answers(given, earlier, at + "/params/inputResponses")


def _outdated(given: JSONObject, earlier: list[Round]) -> Round | None:
    """Return the next round, if ``given`` answers that one although the state is that of ``earlier``."""
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
    """Report input responses that were not requested, or that answer another method."""
    for key, value in given.items():
        wanted = {one.wanted.get(key) for one in earlier}
        before = any(key in one.wanted_before for one in earlier)
        if wanted == {None} and not before:
            problem = f"client answered {shortened(key)}, which frame {earlier[-1].seq} did not ask for"
            yield Violation(
                "MRTR-007",
                "R-259",
                problem,
                pointer=at + token(key),
                related=(earlier[-1].seq,),
                at_most="info",
            )
        shown = method_shown_by(value)
        if shown and wanted != {None} and shown not in wanted:
            asked_for = " or ".join(sorted(str(method) for method in wanted if method))
            problem = f"client answered {shortened(key)} with a result of {shown}; it was {asked_for}"
            yield Violation("MRTR-008", "R-260", problem, pointer=at + token(key), related=(earlier[-1].seq,))


ANSWERED: Final = ("inputResponses", "requestState")
RESULT_TYPE: Final = ("resultType",)
ASKED: Final = (b'"input_required"',)

FAMILY: Final = RuleFamily(
    checks=(
        Check(
            ("MRTR-001", "MRTR-002", "MRTR-003", "MRTR-004", "PROTO-009"),
            question,
            (Response,),
            sender=SERVER,
            within=STATELESS,
            members=RESULT_TYPE,
            mentions=ASKED,
        ),
        Check(
            ("MRTR-005", "MRTR-006", "MRTR-007", "MRTR-008", "MRTR-009", "MRTR-010"),
            retry,
            (Request,),
            SUPPORTED,
            sender=CLIENT,
            within=STATELESS,
            members=ANSWERED,
        ),
        Check(
            ("MRTR-009",),
            misplaced,
            (Request,),
            OTHERS,
            sender=CLIENT,
            within=STATELESS,
            members=ANSWERED,
        ),
    ),
    updates=(
        StateUpdate(
            remember_declared,
            (Request,),
            sender=CLIENT,
            within=STATELESS,
            members=("_meta",),
            mentions=(b'"elicitation"', b'"sampling"', b'"roots"'),
        ),
        StateUpdate(remember_retry, (Request,), SUPPORTED, sender=CLIENT, within=STATELESS, members=ANSWERED),
        StateUpdate(
            remember_round,
            (Response,),
            sender=SERVER,
            within=STATELESS,
            members=RESULT_TYPE,
            mentions=ASKED,
        ),
    ),
)
