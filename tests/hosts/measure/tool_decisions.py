"""Decides rows about the tools of a list: their names, texts, schemas and number."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from mcpproxy.base.json_values import dumps
from mcpproxy.judge.checks.hosts.facts import HostFact
from mcpproxy.judge.checks.hosts.tools import MEETS
from mcpproxy.model.tool_names import written
from mcpproxy.protocol.schema.soundness import subschemas
from mcpproxy.read.prompt.changes import ValueChange
from mcpproxy.read.prompt.report import ToolWay
from mcpproxy.read.view.runs import Certainty
from tests.hosts.measure.seen import Evidence, Seen
from tests.hosts.measure.verdicts import Example, Verdict, of_examples, unknown

_NAMES: Final = ("name-length", "name-characters")
_KEYWORDS: Final = ("keyword-dropped", "keyword-refused")
_OF_THE_LIST: Final = 3
"""How many tools of a list must be missing for all of it to be called lost."""


def of_tools(fact: HostFact, evidence: Evidence) -> Verdict:
    """Return what became of the tools that a row is about."""
    if fact.kind == "tool-count":
        return _count(fact, evidence)
    if fact.kind == "dialect":
        return _dialect(fact, evidence)
    examples = [example for run in evidence.runs for example in _examples(fact, evidence, run)]
    return of_examples(examples, "no probe has such a tool that came to the model")


def settings_of(fact: HostFact, evidence: Evidence) -> Mapping[str, Any]:
    """Return the settings, with the prefix that is there in the place of the shortest one."""
    settings = dict(fact.settings)
    if "before" in settings:
        settings["before"] = len(evidence.prefix.replace(" / ", "__"))  # a namespace of Codex
    return settings


def _examples(fact: HostFact, evidence: Evidence, run: Seen) -> Iterator[Example]:
    if not run.has_prompt or not run.tools:
        return
    for hit in MEETS[fact.kind](settings_of(fact, evidence), run.tools):
        if hit.name not in run.ways:
            continue
        way, server = run.ways[hit.name]
        if not server.has_page(way.match.tool.page) and way.match.tool.page > 1:
            continue  # its page was not read
        if way.match.offered is None and way.in_text is Certainty.CERTAIN and fact.kind != "name-collision":
            continue  # it may come when the model searches for it
        became = _became(fact, evidence, run, way, hit.pointer, hit.detail)
        if became is not None:
            yield Example(became[0], f"{_short(hit.name)}: {became[1]}", run.place(way))


def _became(
    fact: HostFact, evidence: Evidence, run: Seen, way: ToolWay, pointer: str, detail: str
) -> tuple[bool, str] | None:
    """Return whether a tool came as a row says, and what it became; ``None`` if that is not known: a tool
    that is to be changed is not there, or what a service refuses is sent to it.
    """
    offered = way.match.offered
    name = written(offered) if offered is not None else ""
    if fact.kind == "name-collision":
        return _collided(run, way, name)
    if fact.effect in ("lost", "refused") and fact.kind != "schema-shape":
        if fact.kind in _NAMES and name:
            return None if fact.effect == "refused" else (False, f"named {_short(name)}")
        if (
            fact.effect == "refused"
            and fact.kind == "keyword-refused"
            and name
            and _keywords(fact, way)[1][:4] == "kept"
        ):
            return None
        if fact.effect == "refused":
            there = sum(1 for each, _ in run.ways.values() if each.match.offered is not None)
            return not there, f"{there} of {len(run.ways)} tools of the server in the prompt"
        return not name, "in the prompt" if name else "not in the prompt"
    if not name:
        is_meant = fact.effect != "changed" or fact.kind == "tool-hidden"
        return (True, "not in the prompt") if is_meant else None
    if fact.kind in _NAMES:
        return name != evidence.prefix + way.match.tool.name, f"named {_short(name)}"
    if fact.kind in _KEYWORDS:
        return _keywords(fact, way)
    if fact.kind == "text-length" and fact.settings["of"] == "description":
        change, limit = way.description, fact.settings["limit"]
        is_met = change.way == "cut" and abs(change.kept - limit) <= limit // 10
        return is_met, f"description of {change.size:,}: {change.way}, {change.kept:,} there"
    if fact.kind == "text-length":
        lost = [change for change in way.schema if change.what in ("lost", "changed")]
        return bool(lost), f"schema of {detail}: {_changes(lost) or 'the same'}"
    at = pointer.partition("/")[2].partition("/")[2].partition("/")  # behind /INDEX/inputSchema
    there = [change for change in way.schema if change.pointer.startswith(f"/{at[2]}" if at[2] else "")]
    return bool(there), f"schema at /{at[2]}: {_changes(there) or 'the same'}"


def _collided(run: Seen, way: ToolWay, name: str) -> tuple[bool, str]:
    """Return whether two tools became one name: one of them is not there, or the name is there twice."""
    taken = way.match.taken_by
    if not name:
        return True, f"not in the prompt{f', its name is that of {_short(taken.name)}' if taken else ''}"
    others = [each for each, _ in run.ways.values() if each is not way and each.match.offered is None]
    gone = next((each for each in others if each.match.taken_by is way.match.tool), None)
    if gone is not None:
        return True, f"there as {_short(name)}, in the place of {_short(gone.match.tool.name)}"
    return way.is_twice, f"there as {_short(name)}{', twice' if way.is_twice else ''}"


def _keywords(fact: HostFact, way: ToolWay) -> tuple[bool, str]:
    """Return whether the keywords of a row are gone from a schema, and which are and which are not."""
    schema = way.match.tool.schema
    places = subschemas(schema) if fact.settings["at"] == "anywhere" else [("", schema)]
    has = [
        f"{pointer}/{keyword}"
        for pointer, each in places
        if isinstance(each, dict)
        for keyword in each
        if keyword in fact.settings["keywords"]
    ]
    gone = [change.pointer for change in way.schema if change.what in ("lost", "as text", "changed")]
    kept = [place for place in has if not any(place == one or place.startswith(f"{one}/") for one in gone)]
    lost = [place for place in has if place not in kept]
    words = [f"{word} {', '.join(places)}" for word, places in (("kept", kept), ("gone", lost)) if places]
    return not kept, " and ".join(words)


def _changes(changes: list[ValueChange]) -> str:
    return ", ".join(f"{change.what} {change.pointer}" for change in changes[:3]) + (
        f" and {len(changes) - 3} more" if len(changes) > 3 else ""
    )


def _count(fact: HostFact, evidence: Evidence) -> Verdict:
    limit = fact.settings["limit"]
    examples: list[Example] = []
    for run in evidence.runs:
        if len(run.tools) > limit and run.has_prompt:
            there = [way for way, _ in run.ways.values() if way.match.offered is not None]
            words = f"{len(run.tools):,} listed, {len(there):,} in the prompt ({run.probe})"
            is_met = not there if fact.effect == "refused" else len(there) == limit
            examples.append(Example(is_met, words, f"{run.folder}/model.jsonl"))
        elif len(run.tools) > limit:
            said = next(
                (line for line in run.said.splitlines() if "limit" in line), "no request to the model"
            )
            examples.append(Example(fact.effect == "refused", said.strip()[-160:], f"{run.folder}/said.txt"))
    return of_examples(examples, f"no probe has more than {limit:,} tools whose list was read")


def _dialect(fact: HostFact, evidence: Evidence) -> Verdict:
    examples: list[Example] = []
    for run in evidence.runs:
        called = {call.name for wire in run.wires for call in wire.of("tools/call") if call.is_answered}
        for hit in MEETS["dialect"](fact.settings, run.tools):
            if hit.name in run.called and run.has_prompt:
                words = f"{hit.name}: {'called and answered' if hit.name in called else 'no call of it'}"
                examples.append(Example(hit.name not in called, words, run.folder))
    return (
        of_examples(examples, "no such tool was called") if examples else unknown("no such tool was called")
    )


def _short(name: str) -> str:
    text = dumps(name, compact=True)
    return text if len(text) <= 48 else f"{text[:24]}…{text[-20:]} ({len(name)})"
