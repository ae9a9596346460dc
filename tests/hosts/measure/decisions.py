"""Decides a row of ``rules/hosts`` by recordings of the host before the probes.

What a row is about is found by the functions by which ``mcpproxy check --hosts`` finds it, and what became of
that by the report of ``mcpproxy.read.prompt``; lists, times and requests by the recording of the server.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from mcpproxy.judge.checks.hosts.facts import HostFact
from mcpproxy.judge.checks.hosts.results import LOSES
from mcpproxy.protocol.message_parts import member
from mcpproxy.read.prompt.call_ways import CallWay, PieceWay
from tests.hosts.measure.seen import Evidence, Seen, Wire
from tests.hosts.measure.tool_decisions import of_tools
from tests.hosts.measure.verdicts import Example, Verdict, of_examples, unknown

NOT_SHOWN: Final = ("missing", "unknown", "cut", "changed")
_NEAR: Final = 0.1
"""By which part of it a time or a length may differ from what a row says."""


def decided(fact: HostFact, evidence: Evidence) -> Verdict:
    """Return what the recordings say of a row."""
    return _DECIDE.get(fact.kind, of_tools)(fact, evidence)


def _instructions(fact: HostFact, evidence: Evidence) -> Verdict:
    examples: list[Example] = []
    for run in evidence.runs:
        for server in run.servers:
            change, limit = server.instructions, fact.settings["limit"]
            if change.size > limit and run.has_prompt:
                is_met = change.way == "cut" and abs(change.kept - limit) <= limit * _NEAR
                words = f"instructions of {change.size:,}: {change.way}, {change.kept:,} there"
                examples.append(Example(is_met, words, f"{run.folder}/model.jsonl"))
    return of_examples(examples, "no server has instructions so long")


def _texts(fact: HostFact, evidence: Evidence) -> Verdict:
    return (_instructions if fact.settings["of"] == "instructions" else of_tools)(fact, evidence)


def _pages(fact: HostFact, evidence: Evidence) -> Verdict:
    limit = fact.settings["pages"]
    examples: list[Example] = []
    for method in fact.settings["lists"]:
        for run in evidence.runs:
            for wire in run.wires:
                read, more = pages_read(wire, method)
                if more is None or read < 1:
                    continue
                end = "and no further, though there is more" if more else "to its end"
                place = f"{wire.path.rpartition('/')[2]} frame {wire.of(method)[-1].frame}"
                if more or read > limit:
                    words = f"{method}: {read:,} pages read {end} ({run.probe})"
                    examples.append(Example(more and read == limit, words, f"{run.folder}/servers/{place}"))
    return of_examples(examples, "no list of more pages was asked for")


def pages_read(wire: Wire, method: str) -> tuple[int, bool | None]:
    """Return how many pages of a list a host has read in a row at most, and whether there were more; ``None``
    if it did not ask, or got no answer."""
    read, best, more = 0, 0, None
    for call in wire.of(method):
        if call.result is None:
            continue
        read = read + 1 if isinstance(member(call.params, "cursor"), str) else 1
        if read >= best:
            best, more = read, "nextCursor" in call.result
    return best, more


def _results(fact: HostFact, evidence: Evidence) -> Verdict:
    examples = [each for run in evidence.runs for each in _result_examples(fact, run)]
    return of_examples(examples, "no call of this kind was answered before a later request to the model")


def _result_examples(fact: HostFact, run: Seen) -> Iterator[Example]:
    for server in run.servers:
        for way in server.calls:
            if way.wire.result is None or way.result is None:
                continue
            place = run.call_place(way.given.frame)
            for is_met, words in _CONTENT[fact.kind](fact, way, way.wire.result):
                yield Example(is_met, f"{way.wire.name}: {words}", place)


def _large(fact: HostFact, way: CallWay, result: Mapping[str, Any]) -> Iterator[tuple[bool, str]]:
    limit = fact.settings["limit"]
    for piece in way.pieces:
        change = piece.change
        if piece.piece.kind != "text" or result.get("structuredContent") is not None:
            continue
        if change.size > limit:
            yield change.way in ("cut", "missing"), f"{change.size:,} characters, {change.kept:,} there"
        elif change.way in ("cut", "missing") and change.size > 500:
            yield False, f"{change.size:,} characters, of which {change.kept:,} are there already"


def _dropped(fact: HostFact, way: CallWay, result: Mapping[str, Any]) -> Iterator[tuple[bool, str]]:
    if result.get("structuredContent") is not None:
        return  # what becomes of content beside it is another kind of fact
    settings = {**fact.settings, "after": 0}
    content: list[Any] = result.get("content", [])
    met = [piece for block, piece in zip(content, way.pieces, strict=False) if _is_meant(settings, block)]
    for piece in met[fact.settings["after"] :]:
        noun = f"{piece.piece.kind} {piece.piece.mime}".strip()
        yield _is_gone(fact, piece), f"{noun}: {piece.change.way}"


def _is_meant(settings: Mapping[str, Any], block: Any) -> bool:
    return LOSES["content-dropped"](settings, {"content": [block]}) is not None


def _is_gone(fact: HostFact, piece: PieceWay) -> bool:
    """Whether a part is not there as what it is. Bytes as base64 in a text are lost, a link is not."""
    if fact.effect == "changed" or piece.piece.digest:
        return piece.change.way != "same"
    return piece.change.way in NOT_SHOWN


def _structured(fact: HostFact, way: CallWay, result: Mapping[str, Any]) -> Iterator[tuple[bool, str]]:
    if LOSES["structured-content"]({**fact.settings, "keeps": []}, dict(result)) is None:
        return
    for block, piece in zip(result.get("content", []), way.pieces, strict=False):
        is_kept = block.get("type") in fact.settings["keeps"]
        is_there = piece.change.way in ("same", "as text", "extended")
        yield is_there is is_kept, f"{piece.piece.kind} {'there' if is_there else 'lost'}"
    last = way.pieces[-1]
    if last.piece.kind == "structured":
        is_there = last.change.way != "missing"
        yield is_there, f"structured content {'there' if is_there else 'lost'}"


_CONTENT: Final[Mapping[str, Callable[..., Iterator[tuple[bool, str]]]]] = {
    "result-size": _large,
    "content-dropped": _dropped,
    "structured-content": _structured,
}


def _times(fact: HostFact, evidence: Evidence) -> Verdict:
    if fact.settings["over"] == "http":
        return unknown("the probes are servers over stdio")
    limit = fact.settings["limit"]
    examples: list[Example] = []
    for run in evidence.runs:
        if run.probe == "progress":
            continue  # some hosts wait longer then: ``news`` says it
        for wire in run.wires:
            for method in fact.settings["methods"]:
                for call in wire.of(method):
                    if (example := _time(fact, limit, run, wire, call)) is not None:
                        examples.append(example)
    return of_examples(examples, f"no answer took over {limit} s")


def _time(fact: HostFact, limit: float, run: Seen, wire: Wire, call: Any) -> Example | None:
    is_fast = call.latency_ns is not None and call.latency_ns <= limit * 1e9
    if is_fast and call.id not in wire.cancelled:
        return None
    waited = _model_waited_s(run, call) if call.method == "tools/call" else None
    given_up = waited if waited is not None else wire.waited_s(call)
    came = call.is_answered and call.id not in wire.cancelled and (waited is None or _arrived(run, call))
    place = f"{run.folder}/servers/{wire.path.rpartition('/')[2]} frame {call.frame}"
    if came:
        return Example(False, f"{call.method} took {given_up:.1f} s, and the host took the answer", place)
    if given_up < 1:  # the host ended everything; some say after which time
        found = re.search(r"after (\d+(?:\.\d+)?) ?s", run.said) if fact.kind == "start-time" else None
        if found is None:
            return None
        given_up, place = float(found[1]), f"{run.folder}/said.txt"
    is_met = abs(given_up - limit) <= max(2, limit * _NEAR)
    return Example(is_met, f"{call.method} given up after {given_up:.1f} s", place)


def _way(run: Seen, call: Any) -> CallWay | None:
    return next((way for server in run.servers for way in server.calls if way.wire.frame == call.frame), None)


def _model_waited_s(run: Seen, call: Any) -> float | None:
    """Return how long it took until the model had something for its call; ``None`` if it had nothing."""
    way = _way(run, call)
    if way is None or not way.given.at_ns:
        return None
    return (way.given.at_ns - way.wire.at_ns) / 1e9


def _arrived(run: Seen, call: Any) -> bool:
    way = _way(run, call)
    return way is not None and any(piece.change.is_there for piece in way.pieces)


def _nothing(fact: HostFact, evidence: Evidence) -> Verdict:
    for run in evidence.named("nothing"):
        for server, wire in zip(run.servers, run.wires, strict=False):
            asked = sorted({call.method for call in wire.calls if call.method.endswith("/list")})
            said = next((line for line in run.said.splitlines() if "found on" in line), "")
            if said:
                return Verdict("confirmed", f"it says: {said.strip()[:200]}", f"{run.folder}/said.txt")
            if run.report is not None and server.server.open_ns[1] < _first_request_ns(run):
                return Verdict(
                    "confirmed", "the session ended before the first request to the model", run.folder
                )
            return unknown(f"it asks for {', '.join(asked) or 'no list'}, says nothing, and goes on")
    return unknown("the probe did not run")


def _first_request_ns(run: Seen) -> int:
    asked = [way.asked.at_ns for server in run.servers for way in server.tools if way.asked.at_ns]
    return min(asked, default=0)


def _requests(fact: HostFact, evidence: Evidence) -> Verdict:
    examples: list[Example] = []
    for run in evidence.named("asks"):
        for wire in run.wires:
            for call in wire.calls:
                if call.sender == "server" and call.method in fact.settings["methods"]:
                    code = member(call.error, "code")
                    how = "answered" if call.result is not None else f"error {code}" if code else "no answer"
                    place = f"{run.folder}/servers/{wire.path.rpartition('/')[2]} frame {call.frame}"
                    examples.append(Example(call.result is None, f"{call.method}: {how}", place))
    return of_examples(examples, "the server asked for nothing: its tool was not called")


def _undeclared(fact: HostFact, evidence: Evidence) -> Verdict:
    return unknown("whether a page is shown is in no recording")


_DECIDE: Final[Mapping[str, Callable[[HostFact, Evidence], Verdict]]] = {
    "text-length": _texts,
    "pages": _pages,
    "result-size": _results,
    "content-dropped": _results,
    "structured-content": _results,
    "start-time": _times,
    "answer-time": _times,
    "nothing-offered": _nothing,
    "server-request": _requests,
    "extension-undeclared": _undeclared,
}
"""By kind; every other kind is decided by what became of the tools of a list."""
