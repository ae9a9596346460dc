"""Results that ask for input (*rounds*), after which the client never retries the request with the input.

A client that declines says so in a retry. No requirement obliges a client to retry at all, but if it does
not, the user often waits for an answer that never comes. So this is reported as an info.

Source: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr#server-requirements-basic-workflow
"""

from collections.abc import Iterator
from typing import Final

from mcpproxy.judge.checks.engine.context import Violation, shortened
from mcpproxy.judge.checks.engine.rows import EventCheck, RuleFamily
from mcpproxy.judge.checks.stateless.rounds import AllRounds, Round
from mcpproxy.judge.session.frame import CLIENT, Close, Signal
from mcpproxy.judge.session.history import History
from mcpproxy.protocol.message_parts import as_object, member
from mcpproxy.protocol.meta_keys import CAPABILITIES_KEY
from mcpproxy.protocol.methods import declares, needs
from mcpproxy.protocol.revisions import stateless_of

LONG_NS: Final = 30_000_000_000
"""If the recording ends sooner than this after a result, an idle client may just have been closed."""


def never_retried(event: Signal | Close, history: History) -> Iterator[Violation]:
    """Report a request that the client did not retry with the input that its result asked for (MRTR-011).

    A later request for the same tool, prompt or resource counts as a retry, whatever its params are. Over
    HTTP nothing is reported, because the client may have retried under other credentials.
    """
    if not isinstance(event, Close) or event.ending == "cut" or history.has_gap:
        return
    if not history.client.fully_read:
        return
    for known_rounds in history.of(AllRounds).by_caller.values():
        for (method, target), round_ in known_rounds.left.items():
            was_active = history.client.last_answered_seq > round_.seq
            if not was_active and event.observed_at_ns - round_.observed_ns < LONG_NS:
                continue
            if not round_.method_by_key or round_.request.cancelled or not _can_answer(round_):
                continue
            asked = ", ".join(f"{asked_method} ({key})" for key, asked_method in round_.method_by_key.items())
            name = f"{method} {target}" if target else method
            problem = (
                f"client never retried {shortened(name)} with the input it asked for: {shortened(asked)}"
            )
            yield Violation(
                "MRTR-011",
                "R-282",
                problem,
                pointer="/result/inputRequests",
                related=(round_.request.seq,),
                blame=CLIENT,
                frame=round_.seq,
                candidates=round_.request.candidates,
            )


def _can_answer(round_: Round) -> bool:
    """Whether the client declared the capabilities to answer; otherwise the server should not have asked."""
    request = round_.request
    capabilities = as_object(member(request.params, "_meta", CAPABILITIES_KEY)) or {}
    revision = stateless_of(request.candidates)[0]
    return all(
        method is not None
        and all(
            need.condition != "always" or declares(capabilities, need.path)
            for need in needs(method, revision)
        )
        for method in round_.method_by_key.values()
    )


FAMILY: Final = RuleFamily(events=(EventCheck(("MRTR-011",), never_retried),))
