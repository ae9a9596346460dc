"""Describes behaviour of a client that the protocol leaves open: facts without a verdict."""

from collections.abc import Iterator, Mapping
from typing import Final

from mcpproxy.base.style import count
from mcpproxy.base.system_words import end_text
from mcpproxy.peers.client_tests.lawful import PAGES
from mcpproxy.peers.client_tests.rows.authorized import Discovery
from mcpproxy.peers.client_tests.seen import SeenClient
from mcpproxy.peers.client_tests.verdict import Played, lacking
from mcpproxy.peers.client_tests.wrong import OTHERS_FIRST

PAGES_READ: Final = (("two-pages", 2), ("empty-page", 2), ("many-pages", PAGES))
"""The scenarios whose list has pages, and how many."""

_STREAMS: Final = ("polled-answer", "resumed-answer")
"""The scenarios in which the answer comes only to a client that resumes the stream."""

_AGAIN: Final = {
    **dict.fromkeys(_STREAMS, ("comes again for the answer", "does not come again for the answer")),
    "input-required": ("calls again with the input", "does not call again with the input"),
    "state-only": ("calls again with the state", "does not call again with the state"),
}
"""By scenario: the clause about a client that comes or calls again, and about one that does not."""

_REVISIONS: Final = ("old-revision", "unknown-revision")
"""The scenarios whose server offers a revision of its own choice, whatever the client asks for."""


def behaviour(played: Mapping[str, Played]) -> Iterator[tuple[str, str]]:
    """Yield the facts that the scenarios in ``played`` show: the name of each fact, and a clause.

    ``played`` has them by name. A fact has the name of its scenario, or one of its own. Scenarios in which
    the client did not get far enough are left out.
    """
    done = {name: play for name, play in played.items() if not lacking(play)}
    if ordinary := done.get("ordinary"):
        seen = ordinary.seen
        declared = ", ".join(map(str, seen.capabilities)) or "none"
        yield "revision-offered", f"offers {seen.wanted or 'no revision'}; capabilities: {declared}"
        if seen.knows_no_session:
            yield "sessions", "sends no initialize to a server that has sessions"
        if ordinary.stay.is_visit:
            pass  # a program that a person has started may keep running
        elif ordinary.stay.code is None:
            yield "stays", "stays connected when it has done all, so that an exit with an error tells nothing"
        elif ordinary.stay.code:
            yield "exit-code", f"{end_text(ordinary.stay.code)} with an ordinary server, too"
        if seen.has_probed:
            yield "probes", "asks with server/discover first"
        if calls := seen.requests["tools/call"]:
            verb = (
                "sends a" if seen.with_token == calls else "sends no" if not seen.with_token else "may send a"
            )
            yield "progress-token", f"{verb} progressToken with a call"
    for name, pages in PAGES_READ:
        if name in done:
            read = min(done[name].seen.pages, pages)
            yield name, f"reads {read} of {count(pages, 'page')}"
    if changed := done.get("list-changed"):
        again = changed.seen.requests["tools/list"] > 1
        yield "list-changed", f"{'asks' if again else 'does not ask'} again when the list has changed"
    for name in _REVISIONS:
        if name in done:
            goes_on = done[name].seen.notifications["notifications/initialized"]
            yield name, f"{'goes on with' if goes_on else 'does not accept'} the revision that is offered"
    if silent := done.get("never-answers"):
        yield "call-timeout", _call_timeout_clause(silent)
    for name in OTHERS_FIRST:
        if name in done and done[name].stay.code == 0 and done[name].seen.open_calls:
            yield name, "takes it for the answer to its call"
    for name, (does, does_not) in _AGAIN.items():
        if name in done:
            seen = done[name].seen
            again = seen.resumed if name in _STREAMS else seen.requests["tools/call"] > 1
            yield name, does if again else does_not
    if probed := done.get("probe-unanswered"):
        waited_s = probed.seen.fell_back_ns / 1e9
        falls_back = f"sends initialize{f' after {waited_s:.1f} s' if waited_s else ' in another session'}"
        yield "probe-unanswered", falls_back if probed.seen.fell_back else "does not send initialize"
    for name, play in done.items():
        if isinstance(play.scenario.http, Discovery):
            yield name, _login_clause(play.seen, play.scenario.http)
    ends: dict[str, list[str]] = {}
    for name, play in done.items():
        if play.stay.code and play.scenario.reaction != "goes on" and name not in _REVISIONS:
            end = f"{end_text(play.stay.code)}: {play.stay.last_words or 'without a word'}"
            ends.setdefault(end, []).append(name)
    for end, (first, *others) in ends.items():
        yield first, f"{end} (and so with {', '.join(others)})" if others else end


def _login_clause(seen: SeenClient, discovery: Discovery) -> str:
    if seen.with_login:
        return "logs in"
    if discovery.resource and seen.found.get(discovery.server):
        return "finds the authorization server, and does not log in"
    if seen.found:
        return "looks for an authorization server, and finds none"
    return "does not look for an authorization server"


def _call_timeout_clause(silent: Played) -> str:
    seen = silent.seen
    if seen.gave_up_ns:
        waited_s = (seen.gave_up_ns - seen.asked_ns) / 1e9
        if seen.notifications["notifications/cancelled"]:
            return f"cancels a call without an answer after {waited_s:.1f} s"
        return f"leaves a call without an answer after {waited_s:.1f} s, without cancelling it"
    if silent.stay.code is None and not seen.over_ns:
        ended = f"until it is ended, {silent.stay.seconds:.0f} s after its start"
        return f"waits for a call without an answer {ended}"
    if silent.stay.code is None:
        waited_s = max(seen.over_ns - seen.asked_ns, 0) // 1_000_000_000
        return f"waits for a call without an answer for more than {waited_s} s"
    return f"gives up within {silent.stay.seconds:.1f} s of its start, without cancelling the call"
