"""Servers that meet each kind of fact about hosts, and what a scripted model does with them."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from mcpproxy.judge.checks.hosts.facts import HostFact
from tests.real_hosts import awkward_server
from tests.real_hosts.awkward_server import PDF, STRING, SVG, held, marked, members, png, text, wav
from tests.real_hosts.script import SCRIPT

PROBE_SERVER: Final = str(Path(__file__).with_name("probe_server.py"))
NAME: Final = "probe"
"""What the server is called in the settings of a host: short, so that limits of names are met closely."""

SLOW: Final = "slow"
"""The tool whose answer takes long."""


@dataclass(frozen=True)
class Probe:
    """A server, and the tools that a model calls of it, one after the other.

    ``lists`` are the pages of each list by its method. ``waits`` are seconds by method or name of a tool.
    ``asker`` is a tool during whose call the server sends ``asks``. ``grows`` are tools that are added by the
    call of another one. ``name`` is what the server is called in the host's settings.
    """

    lists: Mapping[str, Sequence[Sequence[Mapping[str, Any]]]]
    calls: Sequence[str] = ()
    results: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    capabilities: Mapping[str, Any] = field(default_factory=lambda: {"tools": {}})
    waits: Mapping[str, float] = field(default_factory=dict[str, float])
    tells_progress: bool = False
    asker: str = ""
    asks: Sequence[Mapping[str, Any]] = ()
    grows: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    name: str = NAME
    is_awkward: bool = False

    def command(self, folder: Path) -> list[str]:
        """Write what the server does, and return its command."""
        if self.is_awkward:
            return [sys.executable, awkward_server.__file__]
        file = folder / "probe.json"
        said = {
            "lists": self.lists,
            "results": self.results,
            "capabilities": self.capabilities,
            "waits": self.waits,
            "tells_progress": self.tells_progress,
            "asker": self.asker,
            "asks": self.asks,
            "grows": self.grows,
        }
        file.write_text(json.dumps(said), encoding="utf-8")
        return [sys.executable, PROBE_SERVER, str(file)]

    @property
    def script(self) -> list[dict[str, Any]]:
        """What the model does."""
        if self.is_awkward:
            return SCRIPT
        return [*({"call": name} for name in self.calls), {"say": "That was all."}]

    @property
    def seconds(self) -> float:
        """How long its answers take together at least."""
        return sum(self.waits.values())


def tool(name: str, schema: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """Return a tool whose description says its name, by which it is found again under any name."""
    return {"name": name, "description": f"The tool {name}.", "inputSchema": schema or members(), **more}


def plain(*names: str, **lists: Any) -> dict[str, Any]:
    return {"tools/list": [[tool(name) for name in names]], **lists}


def _long(length: int) -> str:
    """Return a name of a length, which says it at both of its ends."""
    return (f"n{length:03}_" + "abcdefghij_" * 20)[: length - 4] + f"_{length:03}"


_NAMES: Final = (
    "fine", "fine_too", "Fine-3",
    *map(_long, (40, 48, 50, 52, *range(54, 66), 80, 112, *range(114, 121), 128)),
    "a.b", "x/y", "p:q", "f@g", "s t", "été", "7up", "one.two", "one_two",
    "k" * 60 + "_first", "k" * 60 + "_other",
)  # fmt: skip

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_DRAFT_7: Final = "http://json-schema.org/draft-07/schema#"
_AB: Final = members(a=STRING, b=STRING)


def _deep(parts: int) -> dict[str, Any]:
    """Return a schema with described members inside others, of about 1,300 bytes for each part."""

    def part(at: int) -> dict[str, Any]:
        names = [f"value_{at:02}_{number:02}" for number in range(9)]
        inside = {name: {**STRING, "description": marked("word", 90)} for name in names}
        return members(**inside) | {"required": names[:1]}

    return members(**{f"part_{at:02}": part(at) for at in range(parts)})


_SCHEMAS: Final[Mapping[str, Mapping[str, Any]]] = {
    "one_of": _AB | {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
    "any_of": _AB | {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
    "all_of": _AB | {"allOf": [{"required": ["a"]}, {"required": ["b"]}]},
    "if_then": _AB | {"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {}},
    "not_both": _AB | {"not": {"required": ["a", "b"]}},
    "closed": _AB | {"additionalProperties": False},
    "dialect_2020": _AB | {"$schema": _DIALECT},
    "dialect_07": _AB | {"$schema": _DRAFT_7},
    "ghost": _AB | {"required": ["a", "ghost"]},
    "free": {"type": "object"},
    "untyped": members(a={"description": "anything"}),
    "no_items": members(a={"type": "array"}),
    "items_union": members(a={"type": "array", "items": {"anyOf": [STRING, {"type": "number"}]}}),
    "nullable": members(a={"type": ["string", "null"]}),
    "three_types": members(a={"type": ["string", "number", "null"]}),
    "references": members(a={"$ref": "#/$defs/A"}) | {"$defs": {"A": STRING}},
    "recursive": members(a={"$ref": "#/$defs/A"})
    | {"$defs": {"A": members(next={"$ref": "#/$defs/A"}, label=STRING)}},
    "format_usual": members(a={**STRING, "format": "date-time"}),
    "format_other": members(a={**STRING, "format": "uri"}),
    "limits_of_text": members(a={**STRING, "pattern": "^x", "minLength": 1, "maxLength": 9}),
    "limits_of_numbers": members(
        a={"type": "integer", "minimum": 1, "maximum": 9, "default": 2},
        b={"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 9, "multipleOf": 0.5},
    ),
    "limits_of_arrays": members(
        a={"type": "array", "items": STRING, "minItems": 1, "maxItems": 4, "uniqueItems": True,
           "contains": {"const": "x"}}
    ),
    "limits_of_objects": members(
        a={"type": "object", "patternProperties": {"^n-": STRING}, "propertyNames": {"maxLength": 4},
           "additionalProperties": {"type": "number"}}
    ),
    "unions_inside": members(
        a={"oneOf": [STRING, {"type": "integer"}]},
        b={"anyOf": [STRING, {"type": "integer"}]},
        c={"allOf": [members(x=STRING), members(y=STRING)]},
        d={"not": STRING},
    ),
    "constant": members(a={"const": "x"}, b={"enum": ["l", "r"]}),
    "told": members(a={**STRING, "title": "A", "examples": ["x"], "deprecated": True}),
    "brackets": members(**{"ids[]": {"type": "array", "items": STRING}}),
    **{f"deep_{parts:02}": _deep(parts) for parts in (1, 2, 3, 4, 6, 9, 12)},
}  # fmt: skip
"""Each of one shape, so that what becomes of a tool has one cause. The last has about 16 KB."""

_SIZES: Final = (
    1000, 4000, 7999, 8001, 9999, 10_001, 10_300, 11_000, 11_999, 12_001, 16_100, 20_100, 20_470, 20_490,
    24_900, 30_100, 39_999, 40_001, 49_999, 50_001, 51_100, 51_300, 60_000, 80_000,
    99_999, 100_001, 119_900, 200_100,
)  # fmt: skip


def _sized(size: int) -> str:
    return f"text_{size}"


_PNG: Final = held("image", png(0, 90, 255), "image/png")
_OTHER_PNG: Final = held("image", png(200, 40, 0), "image/png")
_LINK: Final = {"type": "resource_link", "uri": "probe://paper/1", "name": "paper", "mimeType": "text/plain"}
_BLOB: Final = {
    "uri": "probe://paper/2",
    "mimeType": "application/pdf",
    "blob": held("", PDF, "")["data"],
}
_SPOKEN: Final = "What stands beside the structured content."

_RESULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "picture": {"content": [text("A picture."), _PNG]},
    "two_pictures": {"content": [text("Two pictures."), _PNG, _OTHER_PNG]},
    "drawing": {"content": [text("A drawing."), held("image", SVG, "image/svg+xml")]},
    "sound": {"content": [text("A sound."), held("audio", wav(80), "audio/wav")]},
    "link": {"content": [text("A link."), _LINK]},
    "paper": {
        "content": [
            text("A text."),
            {"type": "resource", "resource": {"uri": "probe://paper/3", "text": "Built in 1931 of oak."}},
        ]
    },
    "file": {"content": [text("A file."), {"type": "resource", "resource": _BLOB}]},
    "structured": {"content": [text(_SPOKEN)], "structuredContent": {"sky": "fair over the harbour"}},
    "structured_picture": {
        "content": [text(_SPOKEN), _PNG],
        "structuredContent": {"sky": "fair over the river"},
    },
    "structured_link": {"content": [text(_SPOKEN), _LINK], "structuredContent": {"sky": "fair on the lake"}},
    "failed": {"content": [text("The gauge is out of order.")], "isError": True},
    "failed_structured": {
        "content": [text("The gauge is broken.")],
        "structuredContent": {"gauge": "out of order today"},
        "isError": True,
    },
}

_OUTPUT: Final = members(sky=STRING)
_SAID: Final = {"content": [text('{"sky": "fair"}')], "structuredContent": {"sky": "fair"}}
_DIALECTS: Final = [
    tool("input_07", _AB | {"$schema": _DRAFT_7}),
    tool("input_2020", _AB | {"$schema": _DIALECT}),
    tool("output", outputSchema=_OUTPUT),
    tool("output_07", outputSchema=_OUTPUT | {"$schema": _DRAFT_7}),
    tool("output_2019", outputSchema=_OUTPUT | {"$schema": "https://json-schema.org/draft/2019-09/schema"}),
    tool("output_2020", outputSchema=_OUTPUT | {"$schema": _DIALECT}),
]


def _resources(*names: str) -> list[dict[str, Any]]:
    return [{"uri": f"probe://{name}", "name": name} for name in names]


def _templates(*names: str) -> list[dict[str, Any]]:
    return [{"uriTemplate": f"probe://{name}/{{x}}", "name": name} for name in names]


def _prompts(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "description": f"The prompt {name}."} for name in names]


def _many(tools: int) -> Probe:
    return Probe(plain(*(f"tool_{at:04}" for at in range(tools))), calls=("tool_0000",))


def _endless(pages: int) -> Probe:
    return Probe({"tools/list": [[tool(f"page_{at:04}")] for at in range(pages)]}, calls=("page_0000",))


PROBES: Final[Mapping[str, Probe]] = {
    "awkward": Probe({}, is_awkward=True),
    "names": Probe(plain(*_NAMES), calls=("fine", "a.b")),
    "schemas": Probe({"tools/list": [[tool(*each) for each in _SCHEMAS.items()]]}, calls=("free",)),
    "boolean": Probe({"tools/list": [[tool("fine"), tool("any_value", members(a=True))]]}, calls=("fine",)),
    "dialects": Probe(
        {"tools/list": [_DIALECTS]},
        calls=[each["name"] for each in _DIALECTS],
        results={each["name"]: _SAID for each in _DIALECTS if "outputSchema" in each},
    ),
    "wide-output": Probe(
        {"tools/list": [[tool("fine"), tool("listed", outputSchema={"type": "array", "items": STRING})]]},
        calls=("fine",),
    ),
    "hidden": Probe(
        {
            "tools/list": [
                [tool("fine"), tool("for_pages", _meta={"ui": {"visibility": ["app"]}}), tool("fine_too")]
            ]
        },
        calls=("fine",),
    ),
    "many": _many(130),
    "pages": Probe(
        {
            "tools/list": [[tool(f"page_{at:03}")] for at in range(70)],
            "resources/list": [_resources("one"), _resources("two")],
            "resources/templates/list": [_templates("one"), _templates("two")],
            "prompts/list": [_prompts("one"), _prompts("two")],
        },
        calls=("page_000",),
        capabilities={"tools": {}, "resources": {}, "prompts": {}},
    ),
    "endless": _endless(130),
    "results": Probe(plain(*_RESULTS), calls=tuple(_RESULTS), results=_RESULTS),
    "sizes": Probe(
        plain(*map(_sized, _SIZES)),
        calls=tuple(map(_sized, _SIZES)),
        results={_sized(size): {"content": [text(marked(f"at{size}", size))]} for size in _SIZES},
    ),
    "nothing": Probe({}, capabilities={"completions": {}}),
    "asks": Probe(
        plain("asker", "fine"),
        calls=("asker", "fine"),
        asker="asker",
        asks=(
            {"method": "roots/list"},
            {
                "method": "elicitation/create",
                "params": {"message": "Who?", "requestedSchema": members(name=STRING)},
            },
            {
                "method": "sampling/createMessage",
                "params": {
                    "messages": [{"role": "user", "content": text("Hello")}],
                    "maxTokens": 10,
                },
            },
        ),
    ),
    "changed": Probe(
        plain("grow", "fine"),
        calls=("grow", "fine", "grown"),
        capabilities={"tools": {"listChanged": True}},
        grows={"grow": tool("grown")},
    ),
    "reserved": Probe(plain("fine"), calls=("fine",), name="workspace"),
    "progress": Probe(plain(SLOW, "fine"), calls=(SLOW, "fine"), waits={SLOW: 75}, tells_progress=True),
}  # fmt: skip
"""By name. More are made for the facts of a host, by ``beyond``."""


def beyond(facts: Iterable[HostFact], longest_s: float) -> dict[str, Probe]:
    """Return probes that list a little more than the facts of a host say it reads, and answer a little later
    than it waits, but no later than after ``longest_s`` seconds."""
    found: dict[str, Probe] = {}
    for fact in facts:
        limit = fact.settings.get("limit", 0)
        if fact.kind == "tool-count" and limit >= len(PROBES["many"].lists["tools/list"][0]):
            found[f"many-{limit + 2}"] = _many(limit + 2)
        if fact.kind == "pages" and fact.settings["pages"] >= len(PROBES["endless"].lists["tools/list"]):
            found[f"endless-{fact.settings['pages'] + 2}"] = _endless(fact.settings["pages"] + 2)
        wait = limit + max(5, limit / 4)
        if fact.kind not in ("start-time", "answer-time") or wait > longest_s:
            continue
        for method in fact.settings["methods"]:
            where = SLOW if method == "tools/call" else method
            found[f"{method.replace('/', '-')}-{wait:.0f}"] = Probe(
                plain(SLOW, "fine"), calls=(SLOW, "fine"), waits={where: wait}
            )
    return found
