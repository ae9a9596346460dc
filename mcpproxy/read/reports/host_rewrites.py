"""Write a tool so that hosts take it: what to do instead, in the server's own words.

A rewritten tool means the same as far as a schema can say it; what it can no longer say is a sentence in a
description, and the server has to check it itself. Only a tool that the facts no longer complain of is
returned.
"""

import copy
import json
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

from mcpproxy.base.patterns import pattern
from mcpproxy.base.slotted import slotted
from mcpproxy.judge.checks.hosts.facts import HostFact
from mcpproxy.judge.checks.hosts.tools import MEETS, size_of
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.schema.soundness import subschemas

Settings: TypeAlias = Mapping[str, Any]

_SAID_CHARACTERS: Final = 300
"""How much of a schema a sentence repeats."""

_MOST_ROUNDS: Final = 4
"""How often all facts are gone through: what pleases one host may not please another one."""

_MOST_INLINED: Final = 10_000
"""How many objects and lists are written in the place of references at most."""


@slotted(frozen=True)
class RewrittenTool:
    """A tool as its server lists it, and as it could list it."""

    before: JSONObject
    after: JSONObject

    @property
    def changed(self) -> JSONObject:
        """The members of the tool that differ, as they should be, with its name."""
        name: JSONObject = {"name": self.after["name"]}
        return name | {key: value for key, value in self.after.items() if self.before.get(key) != value}


def rewritten(
    tool: JSONObject, facts: Iterable[HostFact], others: Sequence[str] = ()
) -> RewrittenTool | None:
    """Return ``tool`` so that none of ``facts`` is met; ``None`` if there is nothing to do, or no way to.

    ``others`` are the names of the other tools of the server.
    """
    known = [fact for fact in facts if fact.kind in MEETS]
    if not any(_met(fact, tool, others) for fact in known):
        return None
    try:
        after = copy.deepcopy(tool)
        for _ in range(_MOST_ROUNDS):
            met = [fact for fact in known if _met(fact, after, others)]
            if not met:
                return RewrittenTool(tool, after)
            for fact in met:
                if fact.kind in _NAMES:
                    _NAMES[fact.kind](fact.settings, after, others)
                elif fact.kind in _DEFINITIONS:
                    _DEFINITIONS[fact.kind](fact.settings, after)
    except RecursionError:
        pass
    return None


def meeting(facts: Iterable[HostFact], tools: Sequence[JSONObject]) -> dict[str, None]:
    """Return the names of the ``tools``, each of which has one, that meet one of the facts."""
    named = [(at, str(tool["name"]), tool) for at, tool in enumerate(tools)]
    found = (
        hit.name
        for fact in facts
        if fact.kind in MEETS and fact.settings.get("of") != "instructions"
        for hit in MEETS[fact.kind](fact.settings, named)
    )
    return dict.fromkeys(found)


def _met(fact: HostFact, tool: JSONObject, others: Sequence[str]) -> bool:
    name = tool.get("name")
    if not isinstance(name, str):
        return False
    names = others if fact.kind == "name-collision" else ()
    tools: list[JSONObject] = [*({"name": other} for other in names), tool]
    return name in meeting([fact], tools)


# Names


def _shorten_name(settings: Settings, tool: JSONObject, others: Sequence[str]) -> None:
    """Leave out words at the end of a name, until it is short enough."""
    name = str(tool["name"])
    most = settings["limit"] - settings["before"]
    if not settings["limit"] or size_of(name, settings.get("unit", "characters")) <= most:
        return
    words = re.split(r"(?<=[^A-Za-z0-9])|(?<=[a-z])(?=[A-Z])", name)
    while len(words) > 1 and len("".join(words).encode()) > min(most, _GOOD_LENGTH):
        words.pop()
    short = "".join(words).rstrip("_-./ ")[:most]
    while little := _LITTLE_WORD.search(short):
        short = short[: little.start()]
    tool["name"] = _unused(short, others, most)


_GOOD_LENGTH: Final = 40
_LITTLE_WORD: Final = re.compile(r"[_-](?:a|an|and|in|of|the|to|with)$")
"""A word with which no name ends."""


def _replace_characters(settings: Settings, tool: JSONObject, others: Sequence[str]) -> None:
    """Replace what is neither a letter of ASCII nor a digit by an underscore."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", str(tool["name"])).strip("_") or "tool"
    if not pattern(settings["pattern"]).fullmatch(name):
        name = f"tool_{name}"
    tool["name"] = _unused(name, others, len(name) + 4)


def _separate_name(settings: Settings, tool: JSONObject, others: Sequence[str]) -> None:
    """Let a name differ from the others in its first characters."""
    if settings["replaced"]:
        tool["name"] = re.sub(r"[^A-Za-z0-9]+", "_", str(tool["name"])).strip("_") or "tool"
    _shorten_name(settings, tool, others)
    tool["name"] = _unused(str(tool["name"]), [re.sub(r"[^A-Za-z0-9]+", "_", other) for other in others], 64)


def _unused(name: str, others: Container[str], most: int) -> str:
    number, free = 2, name
    while free in others:
        suffix = f"_{number}"
        free, number = name[: max(1, most - len(suffix))] + suffix, number + 1
    return free


def _rename_arguments(settings: Settings, tool: JSONObject) -> None:
    """Replace the odd characters in the names of arguments."""
    schema = tool.get("inputSchema")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(schema, dict) or not isinstance(properties, dict):
        return
    allowed, new, taken = pattern(settings["pattern"]), dict[str, str](), set(properties)
    for name in properties:
        plain = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_") or "value"
        new[name] = name if allowed.fullmatch(name) else _unused(plain, taken, 64)
        taken.add(new[name])
    schema["properties"] = {new[name]: value for name, value in properties.items()}
    if isinstance(required := schema.get("required"), list):
        schema["required"] = [new.get(name, name) if isinstance(name, str) else name for name in required]


# Descriptions


def _shorten_text(settings: Settings, tool: JSONObject) -> None:
    """Cut a description behind a sentence, or else behind a word."""
    text, limit, of = tool.get("description"), settings["limit"], settings["of"]
    if of != "description" or not isinstance(text, str):
        return
    while size_of(text, settings["unit"]) > limit:
        text = text[: min(limit, len(text) - 1)]
        ends = [match.end() for match in re.finditer(r"[.!?](?=\s|$)", text)]
        cut = ends[-1] if ends and ends[-1] > len(text) // 2 else max(text.rfind(" "), 1)
        text = text[:cut].rstrip()
    tool["description"] = text


def _say(holder: JSONObject, sentence: str) -> None:
    """Add a sentence to a description."""
    before = holder.get("description")
    text = before.rstrip() if isinstance(before, str) else ""
    if sentence not in text:
        holder["description"] = f"{text}{'' if not text or text[-1] in '.!?' else '.'} {sentence}".strip()


# Schemas


def _leave_keywords_out(settings: Settings, tool: JSONObject) -> None:
    """Say in a description what the keywords say, and keep the properties that they name."""
    schema = tool.get(settings["of"])
    if not isinstance(schema, dict):
        return
    wanted = frozenset(settings["keywords"])
    if "$ref" in wanted:
        _inline(schema)
    places = list(subschemas(schema)) if settings["at"] == "anywhere" else [("", schema)]
    for pointer, place in places:
        holder = place if pointer else tool
        for keyword in [keyword for keyword in place if keyword in wanted and keyword != "$ref"]:
            value = place.pop(keyword)
            if keyword in ("oneOf", "anyOf", "allOf") and isinstance(value, list):
                _take_in(place, value, is_all=keyword == "allOf")
            _say(holder, _sentence(keyword, value))


def _take_in(schema: JSONObject, branches: list[JSON], *, is_all: bool) -> None:
    """Add the properties of the branches of a union, or of a whole, to the schema around them."""
    for branch in branches:
        properties = branch.get("properties") if isinstance(branch, dict) else None
        if isinstance(properties, dict):
            own = schema.setdefault("properties", {})
            if isinstance(own, dict):
                for name, value in properties.items():
                    own.setdefault(name, value)
        required = branch.get("required") if isinstance(branch, dict) else None
        if is_all and isinstance(required, list):
            before = schema.get("required")
            schema["required"] = [*before, *required] if isinstance(before, list) else required


def _sentence(keyword: str, value: JSON) -> str:
    choices = [_named(branch) for branch in value] if isinstance(value, list) else []
    if choices and all(choices) and keyword in ("oneOf", "anyOf"):
        number = "Give exactly one of these" if keyword == "oneOf" else "Give at least one of these"
        return f"{number}: {'; '.join(choices)}."
    if keyword == "allOf" and choices and all(choices):
        return f"Always give {' and '.join(choices)}."
    said = json.dumps(value, ensure_ascii=False)
    whole = said if len(said) <= _SAID_CHARACTERS else f"{said[:_SAID_CHARACTERS]}…"
    return f"It also has to match {keyword}: {whole}."


def _named(branch: JSON) -> str:
    """Return the arguments that a branch asks for; empty if it says something else."""
    required = branch.get("required") if isinstance(branch, dict) else None
    names = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    return " and ".join(names)


def _inline(schema: JSONObject) -> None:
    """Write definitions where they are used, unless that is too long. One that refers to itself is left."""
    document, left = copy.deepcopy(schema), _MOST_INLINED

    def resolved(value: JSON, inside: tuple[str, ...]) -> JSON:
        nonlocal left
        left -= bool(inside)
        if isinstance(value, list):
            return [resolved(each, inside) for each in value]
        if not isinstance(value, dict):
            return value
        reference = value.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/") and reference not in inside and left > 0:
            target = _at(document, reference)
            if isinstance(target, dict):
                rest = {key: each for key, each in value.items() if key != "$ref"}
                return resolved({**target, **rest}, (*inside, reference))
        return {key: resolved(each, inside) for key, each in value.items()}

    whole = cast("JSONObject", resolved(schema, ()))
    if left <= 0:
        return
    refers = any("$ref" in each for _, each in subschemas({**whole, "$defs": {}, "definitions": {}}))
    schema.clear()
    schema.update(whole if refers else {k: v for k, v in whole.items() if k not in ("$defs", "definitions")})


def _at(document: JSON, reference: str) -> JSON:
    for part in reference[2:].split("/"):
        key = part.replace("~1", "/").replace("~0", "~")
        document = document.get(key) if isinstance(document, dict) else None
    return document


def _reshape(settings: Settings, tool: JSONObject) -> None:
    """Give every subschema another form of the shape."""
    schema, shape = tool.get(settings["of"]), settings["shape"]
    if not isinstance(schema, dict):
        return
    if (change := _ROOT_SHAPES.get(shape)) is not None:
        change(schema)
    for _, place in list(subschemas(schema)) if shape in _SHAPES else ():
        _SHAPES[shape](place)


def _to_objects(schema: JSONObject) -> None:
    properties = schema.get("properties")
    if isinstance(properties, dict):
        for name, value in properties.items():
            if isinstance(value, bool):
                properties[name] = {} if value else {"not": {}}


def _to_union(schema: JSONObject) -> None:
    types = schema.get("type")
    if isinstance(types, list) and "anyOf" not in schema:
        del schema["type"]
        schema["anyOf"] = [{"type": each} for each in types]


def _add_items(schema: JSONObject) -> None:
    if schema.get("type") == "array":
        schema.setdefault("items", {})


def _name_required(schema: JSONObject) -> None:
    required, known = schema.get("required"), schema.get("properties")
    if isinstance(required, list) and isinstance(known, dict):
        for name in required:
            if isinstance(name, str):
                known.setdefault(name, {})


def _say_free(schema: JSONObject) -> None:
    schema.setdefault("additionalProperties", True)


def _merge_items(schema: JSONObject) -> None:
    items = schema.get("items")
    branches = items.pop("anyOf", None) if isinstance(items, dict) and "anyOf" in items else None
    if not isinstance(items, dict) or not isinstance(branches, list):
        return
    types = [each.get("type") for each in branches if isinstance(each, dict) and each.keys() == {"type"}]
    if len(types) == len(branches) and all(isinstance(each, str) for each in types):
        items["type"] = cast("list[JSON]", types)
    else:
        _say(items, _sentence("anyOf", branches))


def _say_format(schema: JSONObject) -> None:
    if isinstance(value := schema.get("format"), str):
        del schema["format"]
        _say(schema, f"Format: {value}.")


def _be_object(schema: JSONObject) -> None:
    schema.setdefault("type", "object")


_SHAPES: Final[Mapping[str, Callable[[JSONObject], None]]] = {
    "boolean-property": _to_objects,
    "type-array": _to_union,
    "nullable-union": _to_union,
    "array-without-items": _add_items,
    "unknown-required": _name_required,
    "array-of-union": _merge_items,
    "other-format": _say_format,
}
"""By name of a shape: what gives a subschema another form."""

_ROOT_SHAPES: Final[Mapping[str, Callable[[JSONObject], None]]] = {
    "open-object": _say_free,
    "shared-definition": _inline,
    "root-without-object": _be_object,
}
"""By name of a shape that only a whole schema has: what gives it another form."""


def _leave_dialect_out(settings: Settings, tool: JSONObject) -> None:
    """Leave ``$schema`` out."""
    if isinstance(schema := tool.get(settings["of"]), dict):
        schema.pop("$schema", None)


_NAMES: Final[Mapping[str, Callable[[Settings, JSONObject, Sequence[str]], None]]] = {
    "name-length": _shorten_name,
    "name-characters": _replace_characters,
    "name-collision": _separate_name,
}
"""By kind of a fact: what changes the name of a tool; the last argument has the names of the others."""

_DEFINITIONS: Final[Mapping[str, Callable[[Settings, JSONObject], None]]] = {
    "argument-name": _rename_arguments,
    "text-length": _shorten_text,
    "keyword-refused": _leave_keywords_out,
    "schema-shape": _reshape,
    "wider-schema": _reshape,
    "dialect": _leave_dialect_out,
}
"""By kind of a fact: what changes the definition of a tool."""

REWRITTEN_KINDS: Final = frozenset((*_NAMES, *_DEFINITIONS))
"""The kinds of facts that another tool does not meet."""


def tools_in(messages: Iterable[JSON]) -> list[JSONObject]:
    """Return the tools in results of tools/list, of each name the latest."""
    found: dict[str, JSONObject] = {}
    for message in messages:
        result = message.get("result") if isinstance(message, dict) else None
        tools = result.get("tools") if isinstance(result, dict) else None
        for tool in tools if isinstance(tools, list) else ():
            if isinstance(tool, dict) and isinstance(name := tool.get("name"), str):
                found[name] = tool
    return list(found.values())
