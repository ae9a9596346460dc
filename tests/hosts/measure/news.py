"""What recordings of a host show that no row of its table says."""

from collections.abc import Iterator, Sequence

from mcpproxy.judge.checks.hosts.facts import HostFact
from mcpproxy.judge.checks.hosts.results import LOSES
from mcpproxy.judge.checks.hosts.tools import MEETS
from mcpproxy.model.tool_names import written
from mcpproxy.protocol.jsonrpc import ABSENT
from mcpproxy.protocol.message_parts import member
from mcpproxy.read.prompt.call_ways import CallWay
from mcpproxy.read.prompt.words import piece_noun
from tests.hosts.measure.decisions import pages_read
from tests.hosts.measure.seen import Evidence, Seen
from tests.hosts.measure.tool_decisions import settings_of

_LISTS = ("tools/list", "resources/list", "resources/templates/list", "prompts/list")


def news(evidence: Evidence, facts: Sequence[HostFact]) -> Iterator[str]:
    """Yield what was lost, renamed or changed of which no row speaks, whatever its versions are."""
    yield from _lists(evidence, facts)
    yield from dict.fromkeys(line for run in evidence.runs for line in _tools(evidence, facts, run))
    yield from _keywords(evidence, facts)
    yield from dict.fromkeys(line for run in evidence.runs for line in _calls(facts, run))
    yield from _rest(evidence)


def _lists(evidence: Evidence, facts: Sequence[HostFact]) -> Iterator[str]:
    told = {method for fact in facts if fact.kind == "pages" for method in fact.settings["lists"]}
    for run in evidence.runs:
        for wire in run.wires:
            for method in _LISTS:
                read, more = pages_read(wire, method)
                if more and method not in told:
                    yield f"{method}: {read:,} pages read, and there are more ({run.probe})"
        if run.tools and not any(way.match.offered for way, _ in run.ways.values()) and run.has_prompt:
            yield f"no tool of {len(run.tools):,} in the prompt ({run.probe})"
        if run.wires and not run.has_prompt:
            said = [
                line.strip()[-200:] for line in run.said.splitlines() if "rror" in line or "limit" in line
            ]
            yield f"no request to the model ({run.probe}): {said[0] if said else 'it says nothing'}"
        if not run.wires:
            yield f"the server was not started ({run.probe}, called {run.name or 'as ever'})"


def _tools(evidence: Evidence, facts: Sequence[HostFact], run: Seen) -> Iterator[str]:
    """Yield tools that are lost or renamed, and are none of those that a row is about."""
    if not run.has_prompt or not any(way.match.offered for way, _ in run.ways.values()):
        return
    told = {
        hit.name
        for fact in facts
        if fact.kind in MEETS and fact.settings.get("of") != "instructions"
        for hit in MEETS[fact.kind](settings_of(fact, evidence), run.tools)
    }
    lost: list[str] = []
    for name, (way, server) in run.ways.items():
        if name in told:
            continue
        offered = way.match.offered
        if offered is None:
            if way.match.tool.page == 1 or server.has_page(way.match.tool.page):
                lost.append(name)
        elif written(offered) != evidence.prefix + name and run.probe != "reserved":
            yield f"{name} is named {written(offered)} ({run.place(way)})"
        elif way.description.way in ("cut", "missing"):
            change = way.description
            yield f"{name}: description {change.way}, {change.kept:,} there ({run.place(way)})"
    if lost:
        more = f" and {len(lost) - 8} more" if len(lost) > 8 else ""
        yield f"not in the prompt ({run.probe}): {', '.join(lost[:8])}{more}"


def _keywords(evidence: Evidence, facts: Sequence[HostFact]) -> Iterator[str]:
    """Yield the keywords that were lost, added or changed, each with the tools where."""
    told = {word for fact in facts if fact.kind.startswith("keyword") for word in fact.settings["keywords"]}
    for what in ("lost", "as text", "added", "changed"):
        seen: dict[str, list[str]] = {}
        for run in evidence.runs:
            for name, (way, _) in run.ways.items():
                for change in way.schema:
                    if change.what == what and change.name not in told:
                        seen.setdefault(change.name, []).append(f"{name} {change.pointer}")
        for word, places in seen.items():
            yield f"schema: {word} {what} {len(places)} times, first in {places[0]}"


def _calls(facts: Sequence[HostFact], run: Seen) -> Iterator[str]:
    for server in run.servers:
        for way in server.calls:
            place = run.call_place(way.given.frame)
            if way.model is not None and way.result is None:
                yield f"{way.wire.name}: no later request has its result ({run.probe})"
            if way.is_unmarked:
                yield f"{way.wire.name}: it failed, and only the server's own words say so ({place})"
            if any(_is_told(fact, way) for fact in facts):
                continue
            for piece in way.pieces:
                if piece.change.way not in ("same", "as text", "extended"):
                    kept = (
                        f", {piece.change.kept:,} of {piece.change.size:,} there" if piece.change.kept else ""
                    )
                    yield f"{way.wire.name}: {piece_noun(piece.piece)} {piece.change.way}{kept} ({place})"


def _is_told(fact: HostFact, way: CallWay) -> bool:
    result = way.wire.result
    return (
        fact.kind in LOSES
        and result is not None
        and LOSES[fact.kind](fact.settings, dict(result)) is not None
    )


def _rest(evidence: Evidence) -> Iterator[str]:
    """Yield what no kind of fact is about: who asks, tokens of progress, a list that has changed."""
    methods = {
        call.method
        for run in evidence.runs
        for wire in run.wires
        for call in wire.calls
        if call.sender == "client" and call.frame == min(each.frame for each in wire.calls)
    }
    revisions = {
        str(member(call.params, "protocolVersion"))
        for run in evidence.runs
        for wire in run.wires
        for call in wire.of("initialize")
    }
    yield f"asks first: {', '.join(sorted(methods))}; initialize with {', '.join(sorted(revisions))}"
    for run in evidence.named("progress"):
        calls = [call for wire in run.wires for call in wire.of("tools/call")]
        tokens = sum(member(call.params, "_meta", "progressToken") is not ABSENT for call in calls)
        yield f"{tokens} of {len(calls)} calls have a progressToken"
        for wire in run.wires:
            for call in wire.of("tools/call")[:1]:
                way = next((w for s in run.servers for w in s.calls if w.wire.frame == call.frame), None)
                came = way is not None and any(piece.change.is_there for piece in way.pieces)
                how = "its answer arrived" if came else "it was given up"
                waited = f"the host waited {wire.waited_s(call):.1f} s"
                yield f"a call of 75 s with progress: {how}, {waited} ({run.folder})"
    for run in evidence.named("changed"):
        asked = sum(len(wire.of("tools/list")) for wire in run.wires)
        grown = run.ways.get("grown")
        no = "" if grown is not None and grown[0].match.offered is not None else "not "
        yield f"after list_changed: {asked} lists read, the new tool is {no}in the prompt"
