"""``mcpproxy explain HOST-0xx [TRACE]``: the server's own tools, written so that the hosts take them."""

import json
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Final, cast

import pytest

from mcpproxy.judge.checks.hosts.facts import HostFact
from mcpproxy.judge.ruleset import host_facts
from mcpproxy.protocol.jsonrpc import JSONObject
from mcpproxy.protocol.schema.soundness import flaws
from mcpproxy.read.reports.host_rewrites import REWRITTEN_KINDS, meeting, rewritten
from tests.cli.conftest import Mcpproxy, mcpproxy, state_dir
from tests.test_host_facts import recorded, same_day

__all__ = ["mcpproxy", "same_day", "state_dir"]

FACTS: Final = [
    (host.id, fact)
    for host in host_facts.load(date(2026, 11, 29))
    for fact in host.facts
    if fact.kind in REWRITTEN_KINDS and not fact.has_ended and fact.settings.get("of") != "instructions"
]

UNION: Final = {"anyOf": [{"type": "string"}, {"type": "integer"}]}
STRING: Final = {"type": "string"}

SHAPES: Final[dict[str, dict[str, Any]]] = {
    "boolean-property": {"properties": {"a": True, "b": False}},
    "nullable-union": {"properties": {"a": {"type": ["string", "number", "null"]}}},
    "array-without-items": {"properties": {"a": {"type": "array"}}},
    "unknown-required": {"properties": {"a": STRING}, "required": ["a", "b"]},
    "open-object": {},
    "shared-definition": {
        "properties": {"a": {"$ref": "#/$defs/name"}},
        "$defs": {"name": {"type": "string", "description": "A name."}},
    },
    "array-of-union": {"properties": {"a": {"type": "array", "items": UNION}}},
    "other-format": {"properties": {"a": {"type": "string", "format": "color"}}},
    "root-without-object": {},
}
"""By shape: the members of a schema that has it."""

BRANCHES: Final[dict[str, Any]] = {
    "oneOf": [{"required": ["id"]}, {"required": ["name"]}],
    "anyOf": [{"properties": {"id": STRING}, "required": ["id"]}, {"properties": {"size": {"minimum": 2}}}],
    "allOf": [{"required": ["id"]}, {"properties": {"colour": STRING}}],
    "if": {"required": ["id"]},
    "then": {"required": ["name"]},
    "else": {"required": ["colour"]},
    "$ref": "#/$defs/name",
}


def tool(name: str = "find", schema: dict[str, Any] | None = None, **members: Any) -> JSONObject:
    usual = {"type": "object", "properties": {"id": STRING, "name": STRING}}
    made = {"name": name, "description": "Find it.", "inputSchema": schema or usual, **members}
    return cast("JSONObject", made)


def with_schema(of: str, schema: dict[str, Any]) -> JSONObject:
    return cast("JSONObject", {**tool(), of: schema})


def samples(fact: HostFact) -> Iterator[tuple[JSONObject, list[str]]]:
    """Yield tools that meet a fact, each with the names of the other tools of its server."""
    of = fact.settings.get("of", "inputSchema")
    match fact.kind:
        case "name-length":
            words = "create_a_customer_record_with_an_address_and_a_list_of_the_contacts"
            yield tool(words if fact.settings["limit"] <= 64 else f"{words}_{words}"), []
            yield tool("x" * 128), []
        case "name-characters":
            yield tool("files.read/now"), ["files_read_now"]
            yield tool("9 lives."), []
        case "name-collision" if fact.settings["replaced"]:
            yield tool(f"files{fact.settings['by']}read"), ["files read", "files.read", "files_read_2"]
        case "name-collision":
            yield tool("x" * 100 + "b"), ["x" * 100 + "a"]
        case "argument-name":
            odd = {"type": "object", "properties": {"ids[]": STRING, "ids": STRING}, "required": ["ids[]"]}
            yield tool(schema=odd), []
        case "text-length" if of == "description":
            yield tool(description="Find it. " * 400), []
            yield tool(description="x" * 4000), []
        case "keyword-refused":
            for keyword in fact.settings["keywords"]:
                defined = {"$defs": {"name": STRING}} if keyword == "$ref" else {}
                place = {keyword: BRANCHES[keyword]}
                whole: dict[str, Any] = {"type": "object", "properties": {"id": STRING, "name": STRING}}
                if fact.settings["at"] == "anywhere":
                    yield tool(schema=whole | {"properties": {"id": place}} | defined), []
                if keyword != "$ref":
                    yield tool(schema=whole | place), []
        case "schema-shape" | "wider-schema":
            root = {} if fact.settings["shape"] == "root-without-object" else {"type": "object"}
            yield with_schema(of, {**root, **SHAPES[fact.settings["shape"]]}), []
        case "dialect":
            named = {"$schema": f"https://json-schema.org/{fact.settings['refuses'][0]}/schema"}
            yield with_schema(of, {"type": "object", **named}), []
        case _:
            pass


def rule_of(fact: HostFact) -> str:
    return host_facts.RULES[fact.kind][0]


def facts_of(rule: str) -> list[HostFact]:
    return [fact for _, fact in FACTS if rule_of(fact) == rule]


@pytest.mark.parametrize(
    ("id", "fact"), FACTS, ids=lambda value: value.kind if isinstance(value, HostFact) else value
)
def test_a_rewritten_tool_meets_nothing_that_it_met(id: str, fact: HostFact) -> None:
    found = list(samples(fact))
    if fact.settings.get("of") == "inputSchema" and fact.kind == "text-length":
        assert found == []  # nobody knows which part of a schema could be left out
        return
    for before, others in found:
        facts, names = (
            facts_of(rule_of(fact)),
            cast("list[JSONObject]", [{"name": other} for other in others]),
        )
        assert before["name"] in meeting([fact], [*names, before]), id
        rewrite = rewritten(before, facts, others)
        assert rewrite is not None, before
        after = rewrite.after
        assert after["name"] not in meeting(facts, [*names, after])
        assert after["name"] not in others
        assert after["name"]
        for schema in (after[member] for member in ("inputSchema", "outputSchema") if member in after):
            assert {flaw.kind for flaw in flaws(schema)} <= {"no-properties"}


RULES: Final = sorted({rule_of(fact) for _, fact in FACTS} - {"HOST-021"})
"""HOST-021 is about schemas that no revision with a handshake allows."""


@pytest.mark.parametrize("rule", RULES)
def test_check_no_longer_complains_of_what_explain_writes(
    mcpproxy: Mcpproxy, tmp_path: Path, rule: str
) -> None:
    """By the commands, as a user would: the tools of a recording, and then those that are printed."""
    first = next(sample for fact in facts_of(rule) for sample, _ in samples(fact))
    others = [tool("files read" if rule == "HOST-003" else "other")]
    trace = recorded(tmp_path / "a.jsonl", "another", "1", [*others, first])
    assert rule in rules_in(mcpproxy, trace)
    [changed] = objects_in(mcpproxy("explain", rule, trace).out.partition(f"In {trace}")[2])
    assert changed != first
    after = recorded(tmp_path / "b.jsonl", "another", "1", [*others, {**first, **json.loads(changed)}])
    assert rule not in rules_in(mcpproxy, after)


def rules_in(mcpproxy: Mcpproxy, trace: str) -> set[str]:
    options = ("--hosts", "all", "--hosts-grade", "thread", "--format", "json")
    [judged] = json.loads(mcpproxy("check", trace, *options).out)["traces"]
    return {found["rule"] for found in judged["findings"]}


def objects_in(printed: str) -> Sequence[str]:
    """The JSON texts that are printed, each below the name of its tool."""
    texts: list[str] = []
    for line in printed.splitlines():
        if line.startswith('  tool "'):
            texts.append("")
        elif line.startswith("    ") and texts:
            texts[-1] += line[4:] + "\n"
    return texts


def test_two_tools_get_two_names(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    long = "compare_the_readings_of_all_gauges_along_the_river_in_the_last_thirty_days_for_the_{}_bank"
    listed = [tool(long.format(bank)) for bank in ("east", "west")]
    trace = recorded(tmp_path / "a.jsonl", "another", "1", listed)
    names = [json.loads(text)["name"] for text in objects_in(mcpproxy("explain", "HOST-001", trace).out)]
    assert len(set(names)) == 2


def test_what_no_form_is_known_for_is_said(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/node"}}}
    node = {"$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}}}
    trace = recorded(tmp_path / "a.jsonl", "another", "1", [tool(schema=schema | node)])
    assert 'tool "find": no other form of it is known' in mcpproxy("explain", "HOST-008", trace).out
    other = recorded(tmp_path / "b.jsonl", "another", "1", [tool()])
    assert "None of 1 tool meets it." in mcpproxy("explain", "HOST-008", other).out
    assert (
        "not about tools that could be written in another way" in mcpproxy("explain", "HOST-016", other).out
    )


def test_what_is_written_in_the_place_of_references_is_bounded() -> None:
    facts = [fact for host in host_facts.load(date(2026, 11, 29)) for fact in host.facts]
    facts = [fact for fact in facts if "$ref" in fact.settings.get("keywords", ())]
    assert facts
    long: JSONObject = {"type": "object", "properties": {f"p{number}": {} for number in range(1000)}}
    for uses, has_form in (2, True), (60, False):
        named: JSONObject = {f"a{number}": {"$ref": "#/$defs/long"} for number in range(uses)}
        schema: JSONObject = {"type": "object", "properties": named, "$defs": {"long": long}}
        found = rewritten({"name": "find", "inputSchema": schema}, facts[:1])
        assert (found is not None) == has_form


def test_a_recording_goes_together_with_a_rule_about_hosts(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    trace = recorded(tmp_path / "a.jsonl", "another", "1", [tool()])
    for given, fact in (
        (("PROTO-007", trace), "PROTO-007 is not about hosts; leave the recording out"),
        ((trace,), "a recording, and no rule; mcpproxy explain HOST-008"),
        (("HOST-008", trace, trace.replace("a.", "b.")), "several recordings; name one"),
        (("HOST-008", "gone.jsonl"), "gone.jsonl: "),
    ):
        refused = mcpproxy("explain", *given)
        assert (refused.code, fact in refused.err) == (2, True), refused.err
