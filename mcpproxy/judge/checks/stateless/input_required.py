"""Multi round-trip requests: a result that asks for input, and the retried request that contains the input.

``rounds`` calls such a result a *round* and remembers it. A retry is matched to a round by the
``requestState`` that it repeats. Without a state, the parameters of the request must be the same, and the
connection too, because over HTTP any client may make the same request. A round may also have come before the
recording began, so a retry that matches no round is not always reported.

Source: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
"""

from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.judge.checks.basic.embedded import Ask, asks, method_shown_by
from mcpproxy.judge.checks.engine.context import MessageContext, Violation, shortened
from mcpproxy.judge.checks.engine.rows import Check, RuleFamily, StateUpdate
from mcpproxy.judge.checks.stateless.rounds import (
    MAY_ASK_FOR_INPUT,
    RETRY_MEMBERS,
    Round,
    Rounds,
    remember_declared,
    remember_followed,
    remember_retry,
    remember_round,
    rounds,
    without_retry_members,
)
from mcpproxy.judge.session.frame import CLIENT, SERVER
from mcpproxy.judge.session.history import History
from mcpproxy.protocol import methods
from mcpproxy.protocol.jsonrpc import JSONObject, Request, Response
from mcpproxy.protocol.message_parts import as_object, member
from mcpproxy.protocol.meta_keys import CAPABILITIES_KEY
from mcpproxy.protocol.methods import Need, applies, declares, needs
from mcpproxy.protocol.revisions import STATELESS, stateless_of
from mcpproxy.protocol.wording import token

CANNOT_ASK_FOR_INPUT: Final = tuple(
    method
    for method in methods.method_names(*STATELESS)
    if method not in MAY_ASK_FOR_INPUT and methods.sends_in_any(CLIENT, method, "request", STATELESS)
)
"""The client's requests whose results cannot ask for input.

Requests of extensions are left out, because an extension may define members with the same names.
"""

UNMET_NEED: Final = ("PROTO-009", "R-256")
MISSING_PART: Final = {
    "form": ("PROTO-009", "R-052"),
    "url": ("PROTO-009", "R-052"),
    "tools": ("PROTO-009", "R-053"),
    "context": ("PROTO-009", "R-054"),
}
"""The rule and requirement that a missing capability breaks, or (by ``Need.condition``) a missing part."""


# Results that ask for input


def input_required_result(context: MessageContext[Response], history: History) -> Iterable[Violation]:
    """Report faults in a result that asks for input (MRTR-001, MRTR-002, MRTR-003, MRTR-004, PROTO-009)."""
    message = context.message
    result = message.result
    if not context.stateless or not isinstance(result, dict) or result.get("resultType") != "input_required":
        return ()
    return _input_required_result(result, context, history)


def _input_required_result(
    result: JSONObject, context: MessageContext, history: History
) -> Iterator[Violation]:
    request, base_pointer = context.answers, context.at + "/result"
    assert request is not None
    if request.method not in MAY_ASK_FOR_INPUT:
        problem = f"server asked for input in answer to {shortened(request.method)}"
        yield Violation(
            "MRTR-001", "R-253", problem, pointer=base_pointer + "/resultType", related=(request.seq,)
        )
    if "inputRequests" not in result and "requestState" not in result:
        problem = (
            f"server answered {request.method} with input_required, without inputRequests and requestState"
        )
        yield Violation("MRTR-002", "R-254", problem, pointer=base_pointer, related=(request.seq,))
    for key, entry in (as_object(result.get("inputRequests")) or {}).items():
        if isinstance(entry, dict) and (extra := [name for name in ("jsonrpc", "id") if name in entry]):
            problem = f"server wrapped the input request {shortened(key)} like a message, with {extra[0]}"
            pointer = f"{base_pointer}/inputRequests{token(key)}/{extra[0]}"
            yield Violation("MRTR-003", "R-255", problem, pointer=pointer, at_most="warning")
    yield from _undeclared_inputs(context, history)


def _undeclared_inputs(context: MessageContext, history: History) -> Iterator[Violation]:
    """Report input requests that need a capability which the answered request did not declare.

    A capability that only an earlier request declared is undeclared too.
    """
    request = context.answers
    assert request is not None
    capabilities = as_object(member(request.params, "_meta", CAPABILITIES_KEY))
    if capabilities is None:
        return  # STAT-001 reports it.
    for ask in asks(context):
        need = _first_undeclared(ask, capabilities, stateless_of(context.candidates)[0])
        if need is None:
            continue
        problem = f"server asked for {ask.method}, but frame {request.seq} does not declare {need.path}"
        earlier_seqs = [
            seq
            for connection, seq, earlier_capabilities in rounds(history).declarations
            if connection == context.frame.connection
            and seq < request.seq
            and declares(earlier_capabilities, need.path)
        ]
        if earlier_seqs:
            problem += f"; frame {earlier_seqs[-1]} did"
            yield Violation(
                "MRTR-004", "R-256", problem, pointer=ask.at, related=(request.seq, earlier_seqs[-1])
            )
        else:
            declares_parent = need.path.partition(".")[0] in capabilities
            yield Violation(
                *(MISSING_PART[need.condition] if declares_parent else UNMET_NEED),
                problem,
                pointer=ask.at,
                related=(request.seq,),
            )


def _first_undeclared(ask: Ask, capabilities: JSONObject, revision: str) -> Need | None:
    """Return the first undeclared capability that an input request needs; ``None`` if there is none."""
    for need in needs(ask.method, revision):
        if not applies(need, as_object(ask.params)) or declares(capabilities, need.path):
            continue
        elicitation = as_object(capabilities.get("elicitation"))
        if need.condition == "form" and elicitation and "url" not in elicitation:
            continue  # The client declared neither form nor url, which is the client's fault.
        return need  # If a whole capability is missing, its parts are not reported too.
    return None


# Retries


def misplaced_input(context: MessageContext[Request], history: History) -> Iterable[Violation]:
    """Report inputResponses or requestState in a request whose result cannot ask for input (MRTR-009)."""
    message = context.message
    if not context.stateless or not isinstance(message.params, dict):
        return ()
    names = [name for name in ("inputResponses", "requestState") if name in message.params]
    if not names or any(round_.request.method == message.method for round_ in rounds(history).latest):
        return ()  # If the server asked for input nevertheless, the fault is the server's.
    problem = f"client sent {message.method} with {names[0]}"
    return (Violation("MRTR-009", "R-261", problem, pointer=f"{context.at}/params/{names[0]}"),)


def retry(context: MessageContext[Request], history: History) -> Iterable[Violation]:
    """Report faults in a retried request (MRTR-005, MRTR-006, MRTR-007, MRTR-008, MRTR-009, MRTR-010)."""
    message = context.message
    params = message.params
    if not context.stateless or not isinstance(params, dict):
        return ()
    if "requestState" in params:
        may_have_missed_rounds = history.has_gap or history.may_lack_messages
        return _retry_with_state(message, params, context, rounds(history), may_have_missed_rounds)
    if "inputResponses" in params:
        return _retry_without_state(message, params, context, rounds(history), history)
    return ()


def _retry_with_state(
    request: Request,
    params: JSONObject,
    context: MessageContext,
    known_rounds: Rounds,
    may_have_missed_rounds: bool,
) -> Iterator[Violation]:
    state, pointer = params["requestState"], context.at + "/params/requestState"
    with_state = [
        round_ for round_ in known_rounds.latest if round_.state == state and round_.state is not None
    ]
    continued = [round_ for round_ in with_state if round_.concerns(request)]
    if continued:
        yield from _check_retry(request, params, continued, context, known_rounds)
    elif with_state:
        seq = with_state[-1].seq
        problem = f"client sent the requestState of frame {seq} with another request than it was given for"
        yield Violation("MRTR-009", "R-261", problem, pointer=pointer, related=(seq,))
    elif may_have_missed_rounds:
        return  # The result that gave the state may not have been recorded.
    elif of_same_request := known_rounds.of_same_request(request, context.frame.connection):
        latest = of_same_request[-1]
        if all(round_.state is None for round_ in of_same_request):
            problem = f"client sent a requestState, although frame {latest.seq} gave none"
        elif all(round_.state is not None for round_ in of_same_request):
            problem = f"client sent another requestState than frame {latest.seq} gave"
        else:
            return
        yield Violation("MRTR-006", "R-258", problem, pointer=pointer, related=(latest.seq,))


def _retry_without_state(
    request: Request, params: JSONObject, context: MessageContext, known_rounds: Rounds, history: History
) -> Iterator[Violation]:
    responses, pointer = as_object(params["inputResponses"]) or {}, context.at + "/params"
    fitting = [
        round_
        for round_ in known_rounds.of_same_request(request, context.frame.connection)
        if not responses or responses.keys() & round_.method_by_key.keys()
    ]
    if without_state := [round_ for round_ in fitting if round_.state is None]:
        yield from _check_retry(request, params, without_state, context, known_rounds)
    elif fitting:
        problem = f"client left out the requestState that frame {fitting[-1].seq} gave"
        yield Violation("MRTR-006", "R-258", problem, pointer=pointer, related=(fitting[-1].seq,))
    elif not any(round_.concerns(request) for round_ in known_rounds.latest):
        with_same_keys = [
            round_ for round_ in known_rounds.latest if responses.keys() & round_.method_by_key.keys()
        ]
        if with_same_keys:
            seq = with_same_keys[-1].seq
            problem = (
                f"client sent {request.method} with the input that frame {seq} asked for "
                "in answer to another request"
            )
            yield Violation(
                "MRTR-009",
                "R-261",
                problem,
                pointer=pointer + "/inputResponses",
                related=(seq,),
                at_most="warning",
            )
        elif not history.over_http and not history.has_gap:
            # Over HTTP another instance of the server may have asked for the input.
            problem = f"client sent {request.method} with inputResponses that no result asked for"
            yield Violation("MRTR-009", "R-261", problem, pointer=pointer + "/inputResponses", at_most="info")


def _check_retry(
    request: Request,
    params: JSONObject,
    possible_rounds: list[Round],
    context: MessageContext,
    known_rounds: Rounds,
) -> Iterator[Violation]:
    """Report the faults of a retry that continues one of ``possible_rounds``.

    It is unknown which of these rounds is continued. So a fault is reported only if all of them show it.
    """
    latest, base_pointer = possible_rounds[-1], context.at
    responses = as_object(params.get("inputResponses", {}))
    if newer := _round_after(responses or {}, possible_rounds):
        problem = f"client sent the requestState of frame {latest.seq} with the input for frame {newer.seq}"
        yield Violation(
            "MRTR-006",
            "R-258",
            problem,
            pointer=base_pointer + "/params/requestState",
            related=(latest.seq, newer.seq),
        )
        return
    first_request = latest.request
    if all(round_.request.id == request.id for round_ in possible_rounds):
        problem = f"client retried the request in frame {first_request.seq} under the same id"
        yield Violation(
            "MRTR-005", "R-257", problem, pointer=base_pointer + "/id", related=(first_request.seq,)
        )
    if _has_other_params(params, possible_rounds):
        if of_same_request := known_rounds.of_same_request(request, context.frame.connection):
            seq = of_same_request[-1].request.seq
            problem = f"client sent the requestState of frame {latest.seq} with the request of frame {seq}"
            pointer = base_pointer + "/params/requestState"
            related = (latest.seq, of_same_request[-1].seq)
            yield Violation("MRTR-009", "R-261", problem, pointer=pointer, related=related)
            return
        problem = f"client retried the request in frame {first_request.seq} with other parameters"
        yield Violation(
            "MRTR-010", "R-262", problem, pointer=base_pointer + "/params", related=(first_request.seq,)
        )
    if responses is None:
        return  # inputResponses is not an object: ``checks.basic.shapes`` reports MRTR-008.
    if foreign := _foreign_input(responses, possible_rounds, known_rounds):
        key, foreign_round = foreign
        problem = (
            f"client answered {shortened(key)}, which frame {foreign_round.seq} asked for "
            "in answer to another request"
        )
        pointer = base_pointer + "/params/inputResponses" + token(key)
        related = (latest.seq, foreign_round.seq)
        yield Violation("MRTR-009", "R-261", problem, pointer=pointer, related=related, at_most="warning")
        return
    if all(round_.method_by_key.keys() - responses.keys() for round_ in possible_rounds):
        unanswered_key = next(key for key in latest.method_by_key if key not in responses)
        problem = f"client did not answer the input request {shortened(unanswered_key)} of frame {latest.seq}"
        yield Violation(
            "MRTR-007",
            "R-259",
            problem,
            pointer=base_pointer + "/params/inputResponses",
            related=(latest.seq,),
            at_most="warning",
        )
    yield from _unfit_responses(responses, possible_rounds, base_pointer + "/params/inputResponses")


def _has_other_params(params: JSONObject, possible_rounds: list[Round]) -> bool:
    """Whether a retry differs from the request of each round in more than a retry may change."""
    return all(
        without_retry_members(round_.request.params) != without_retry_members(params)
        for round_ in possible_rounds
    )


def _round_after(responses: JSONObject, possible_rounds: list[Round]) -> Round | None:
    """Return the round that followed ``possible_rounds`` if ``responses`` are for it, otherwise ``None``."""
    newer = possible_rounds[-1].next
    if (
        newer is None
        or not responses
        or any(
            round_.next is None or responses.keys() & round_.method_by_key.keys()
            for round_ in possible_rounds
        )
    ):
        return None
    return newer if responses.keys() <= newer.method_by_key.keys() else None


def _foreign_input(
    responses: JSONObject, possible_rounds: list[Round], known_rounds: Rounds
) -> tuple[str, Round] | None:
    """Return the first response that only a round of another request asked for: its key, and that round.

    It is ``None`` if there is none.
    """
    for key in responses:
        if any(key in round_.method_by_key or key in round_.earlier_keys for round_ in possible_rounds):
            continue
        for other_round in reversed(known_rounds.latest):
            other_params = without_retry_members(other_round.request.params)
            if key in other_round.method_by_key and all(
                other_params != without_retry_members(round_.request.params) for round_ in possible_rounds
            ):
                return key, other_round
    return None


def _unfit_responses(
    responses: JSONObject, possible_rounds: list[Round], pointer: str
) -> Iterator[Violation]:
    """Report input responses that were not requested, or that are results of another method."""
    seq = possible_rounds[-1].seq
    for key, value in responses.items():
        requested_methods = {round_.method_by_key.get(key) for round_ in possible_rounds}
        was_requested_earlier = any(key in round_.earlier_keys for round_ in possible_rounds)
        if requested_methods == {None} and not was_requested_earlier:
            problem = f"client answered {shortened(key)}, which frame {seq} did not ask for"
            yield Violation(
                "MRTR-007", "R-259", problem, pointer=pointer + token(key), related=(seq,), at_most="info"
            )
        method = method_shown_by(value)
        if method and requested_methods != {None} and method not in requested_methods:
            expected = " or ".join(sorted(str(name) for name in requested_methods if name))
            problem = (
                f"client answered {shortened(key)} with a result of {method}; the server asked for {expected}"
            )
            yield Violation("MRTR-008", "R-260", problem, pointer=pointer + token(key), related=(seq,))


RESULT_TYPE: Final = ("resultType",)
INPUT_REQUIRED: Final = (b'"input_required"',)

FAMILY: Final = RuleFamily(
    checks=(
        Check(
            ("MRTR-001", "MRTR-002", "MRTR-003", "MRTR-004", "PROTO-009"),
            input_required_result,
            (Response,),
            sender=SERVER,
            within=STATELESS,
            members=RESULT_TYPE,
            mentions=INPUT_REQUIRED,
        ),
        Check(
            ("MRTR-005", "MRTR-006", "MRTR-007", "MRTR-008", "MRTR-009", "MRTR-010"),
            retry,
            (Request,),
            MAY_ASK_FOR_INPUT,
            sender=CLIENT,
            within=STATELESS,
            members=RETRY_MEMBERS,
        ),
        Check(
            ("MRTR-009",),
            misplaced_input,
            (Request,),
            CANNOT_ASK_FOR_INPUT,
            sender=CLIENT,
            within=STATELESS,
            members=RETRY_MEMBERS,
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
        StateUpdate(remember_followed, (Request,), MAY_ASK_FOR_INPUT, sender=CLIENT, within=STATELESS),
        StateUpdate(
            remember_retry,
            (Request,),
            MAY_ASK_FOR_INPUT,
            sender=CLIENT,
            within=STATELESS,
            members=RETRY_MEMBERS,
        ),
        StateUpdate(
            remember_round,
            (Response,),
            sender=SERVER,
            within=STATELESS,
            members=RESULT_TYPE,
            mentions=INPUT_REQUIRED,
        ),
    ),
)
