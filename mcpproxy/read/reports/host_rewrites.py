"""Rewrite a tool's definition so that hosts accept it, as a suggestion to the author of the server.

A rewritten tool means the same, as far as its schema can express it. A constraint that the schema loses
becomes a sentence in a description, and the server must check it itself. A fact says what a host refuses,
loses or changes, and in which definitions. A tool is returned only if no fact about the hosts applies to it
any more.
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
from mcpproxy.protocol.wording import pointer_steps

Settings: TypeAlias = Mapping[str, Any]
"""The settings of a fact, such as a limit or keywords. Each kind of fact has its own."""

_MOST_REPEATED: Final = 300
"""How many characters of a schema a sentence repeats."""

_MOST_ROUNDS: Final = 4
"""How often all facts are tried: a change for one host may violate a limit of another."""

_MOST_INLINED: Final = 10_000
"""How many JSON values may replace references."""


@slotted(frozen=True)
class RewrittenTool:
    """A tool as its server lists it (``before``), and as it should list it (``after``)."""

    before: JSONObject
    after: JSONObject

    @property
    def changed(self) -> JSONObject:
        """The name, and the members of ``after`` that are new or differ from those of ``before``."""
        name: JSONObject = {"name": self.after["name"]}
        return name | {key: value for key, value in self.after.items() if self.before.get(key) != value}


def rewritten(
    tool: JSONObject, facts: Iterable[HostFact], others: Sequence[str] = ()
) -> RewrittenTool | None:
    """Return ``tool`` changed so that none of ``facts`` applies to it.

    ``others`` are the names of the other tools of the server. Return ``None`` if no fact applies, or if no
    change prevents it.
    """
    known = [fact for fact in facts if fact.kind in MEETS]
    if not any(_applies(fact, tool, others) for fact in known):
        return None
    try:
        after = copy.deepcopy(tool)
        for _ in range(_MOST_ROUNDS):
            applying = [fact for fact in known if _applies(fact, after, others)]
            if not applying:
                return RewrittenTool(tool, after)
            for fact in applying:
                if fact.kind in _NAME_CHANGES:
                    _NAME_CHANGES[fact.kind](fact.settings, after, others)
                elif fact.kind in _DEFINITION_CHANGES:
                    _DEFINITION_CHANGES[fact.kind](fact.settings, after)
    except RecursionError:
        pass
    return None


def meeting(facts: Iterable[HostFact], tools: Sequence[JSONObject]) -> dict[str, None]:
    """Return the names of the ``tools`` to which one of the facts applies. Each tool must have a name."""
    named = [(at, str(tool["name"]), tool) for at, tool in enumerate(tools)]
    names = (
        hit.name
        for fact in facts
        if fact.kind in MEETS and fact.settings.get("of") != "instructions"
        for hit in MEETS[fact.kind](fact.settings, named)
    )
    return dict.fromkeys(names)


def _applies(fact: HostFact, tool: JSONObject, others: Sequence[str]) -> bool:
    name = tool.get("name")
    if not isinstance(name, str):
        return False
    names = others if fact.kind == "name-collision" else ()
    tools: list[JSONObject] = [*({"name": other} for other in names), tool]
    return name in meeting([fact], tools)


# Names


def _shorten_name(settings: Settings, tool: JSONObject, others: Sequence[str]) -> None:
    """Remove words, or else characters, from the end of a name that is too long.

    The setting ``before`` is how many characters the host puts before the name.
    """
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
    tool["name"] = _unused_name(short, others, most)


_GOOD_LENGTH: Final = 40
"""The length in bytes to which a name of several words is shortened, word by word, if it is too long."""
_LITTLE_WORD: Final = re.compile(r"[_-](?:a|an|and|in|of|the|to|with)$")
"""Matches a short word that is also removed from the end of a name."""


def _replace_characters(settings: Settings, tool: JSONObject, others: Sequence[str]) -> None:
    """Replace each run of characters other than ASCII letters and digits by an underscore."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", str(tool["name"])).strip("_") or "tool"
    if not pattern(settings["pattern"]).fullmatch(name):
        name = f"tool_{name}"
    tool["name"] = _unused_name(name, others, len(name) + 4)


def _separate_name(settings: Settings, tool: JSONObject, others: Sequence[str]) -> None:
    """Make a name that differs from the others even after the host has replaced characters and cut names."""
    if settings["replaced"]:
        tool["name"] = re.sub(r"[^A-Za-z0-9]+", "_", str(tool["name"])).strip("_") or "tool"
    _shorten_name(settings, tool, others)
    tool["name"] = _unused_name(
        str(tool["name"]), [re.sub(r"[^A-Za-z0-9]+", "_", other) for other in others], 64
    )


def _unused_name(name: str, others: Container[str], most: int) -> str:
    """Return ``name``; if ``others`` has it, shorten it and add a number, to at most ``most`` characters."""
    number, free = 2, name
    while free in others:
        suffix = f"_{number}"
        free, number = name[: max(1, most - len(suffix))] + suffix, number + 1
    return free


def _rename_arguments(settings: Settings, tool: JSONObject) -> None:
    """Rename the arguments whose names a host does not accept, by replacing characters."""
    schema = tool.get("inputSchema")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(schema, dict) or not isinstance(properties, dict):
        return
    allowed, new, taken = pattern(settings["pattern"]), dict[str, str](), set(properties)
    for name in properties:
        plain = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_") or "value"
        new[name] = name if allowed.fullmatch(name) else _unused_name(plain, taken, 64)
        taken.add(new[name])
    schema["properties"] = {new[name]: value for name, value in properties.items()}
    if isinstance(required := schema.get("required"), list):
        schema["required"] = [new.get(name, name) if isinstance(name, str) else name for name in required]


# Descriptions


def _shorten_text(settings: Settings, tool: JSONObject) -> None:
    """Cut a description after a sentence, or else after a word."""
    text, limit, of = tool.get("description"), settings["limit"], settings["of"]
    if of != "description" or not isinstance(text, str):
        return
    while size_of(text, settings["unit"]) > limit:
        text = text[: min(limit, len(text) - 1)]
        ends = [match.end() for match in re.finditer(r"[.!?](?=\s|$)", text)]
        cut = ends[-1] if ends and ends[-1] > len(text) // 2 else max(text.rfind(" "), 1)
        text = text[:cut].rstrip()
    tool["description"] = text


def _describe(holder: JSONObject, sentence: str) -> None:
    """Add a sentence to the description of ``holder``, a tool or a schema."""
    before = holder.get("description")
    text = before.rstrip() if isinstance(before, str) else ""
    if sentence not in text:
        holder["description"] = f"{text}{'' if not text or text[-1] in '.!?' else '.'} {sentence}".strip()


# Schemas


def _remove_keywords(settings: Settings, tool: JSONObject) -> None:
    """Remove keywords from a schema, describe them in a sentence, and keep the properties that they name.

    A ``$ref`` is replaced by the definition that it refers to.
    """
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
                _merge_branches(place, value, is_all=keyword == "allOf")
            _describe(holder, _sentence(keyword, value))


def _merge_branches(schema: JSONObject, branches: list[JSON], *, is_all: bool) -> None:
    """Add the properties in ``branches`` to ``schema``, and if they are of an ``allOf`` also ``required``."""
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
    """Return a sentence that says what a keyword requires."""
    choices = [_required_names(branch) for branch in value] if isinstance(value, list) else []
    if choices and all(choices) and keyword in ("oneOf", "anyOf"):
        number = "Give exactly one of these" if keyword == "oneOf" else "Give at least one of these"
        return f"{number}: {'; '.join(choices)}."
    if keyword == "allOf" and choices and all(choices):
        return f"Always give {' and '.join(choices)}."
    text = json.dumps(value, ensure_ascii=False)
    shortened = text if len(text) <= _MOST_REPEATED else f"{text[:_MOST_REPEATED]}…"
    return f"It also has to match {keyword}: {shortened}."


def _required_names(branch: JSON) -> str:
    """Return the names that a branch requires, joined by "and"; empty if it requires none."""
    required = branch.get("required") if isinstance(branch, dict) else None
    names = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    return " and ".join(names)


def _inline(schema: JSONObject) -> None:
    """Replace references by their definitions; change nothing if that takes too many values.

    A reference of a definition to itself is kept.
    """
    document, left = copy.deepcopy(schema), _MOST_INLINED

    def resolved(value: JSON, inside: tuple[str, ...]) -> JSON:
        nonlocal left
        left -= bool(inside)
        if isinstance(value, list):
            return [resolved(item, inside) for item in value]
        if not isinstance(value, dict):
            return value
        reference = value.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/") and reference not in inside and left > 0:
            target = _referenced(document, reference)
            if isinstance(target, dict):
                rest = {key: member for key, member in value.items() if key != "$ref"}
                return resolved({**target, **rest}, (*inside, reference))
        return {key: resolved(member, inside) for key, member in value.items()}

    inlined = cast("JSONObject", resolved(schema, ()))
    if left <= 0:
        return
    needs_definitions = any(
        "$ref" in place for _, place in subschemas({**inlined, "$defs": {}, "definitions": {}})
    )
    if not needs_definitions:
        inlined = {key: value for key, value in inlined.items() if key not in ("$defs", "definitions")}
    schema.clear()
    schema.update(inlined)


def _referenced(document: JSON, reference: str) -> JSON:
    for key in pointer_steps(reference[1:]):
        document = document.get(key) if isinstance(document, dict) else None
    return document


def _reshape(settings: Settings, tool: JSONObject) -> None:
    """Change the schema, or every subschema, that has a shape which a host does not accept."""
    schema, shape = tool.get(settings["of"]), settings["shape"]
    if not isinstance(schema, dict):
        return
    if (change := _ROOT_SHAPES.get(shape)) is not None:
        change(schema)
    for _, place in list(subschemas(schema)) if shape in _SHAPES else ():
        _SHAPES[shape](place)


def _replace_booleans(schema: JSONObject) -> None:
    properties = schema.get("properties")
    if isinstance(properties, dict):
        for name, value in properties.items():
            if isinstance(value, bool):
                properties[name] = {} if value else {"not": {}}


def _replace_type_list(schema: JSONObject) -> None:
    types = schema.get("type")
    if isinstance(types, list) and "anyOf" not in schema:
        del schema["type"]
        schema["anyOf"] = [{"type": name} for name in types]


def _add_items(schema: JSONObject) -> None:
    if schema.get("type") == "array":
        schema.setdefault("items", {})


def _define_required(schema: JSONObject) -> None:
    required, known = schema.get("required"), schema.get("properties")
    if isinstance(required, list) and isinstance(known, dict):
        for name in required:
            if isinstance(name, str):
                known.setdefault(name, {})


def _allow_additional(schema: JSONObject) -> None:
    schema.setdefault("additionalProperties", True)


def _merge_items(schema: JSONObject) -> None:
    items = schema.get("items")
    branches = items.pop("anyOf", None) if isinstance(items, dict) and "anyOf" in items else None
    if not isinstance(items, dict) or not isinstance(branches, list):
        return
    types = [
        branch.get("type") for branch in branches if isinstance(branch, dict) and branch.keys() == {"type"}
    ]
    if len(types) == len(branches) and all(isinstance(name, str) for name in types):
        items["type"] = cast("list[JSON]", types)
    else:
        _describe(items, _sentence("anyOf", branches))


def _describe_format(schema: JSONObject) -> None:
    if isinstance(value := schema.get("format"), str):
        del schema["format"]
        _describe(schema, f"Format: {value}.")


def _add_object_type(schema: JSONObject) -> None:
    schema.setdefault("type", "object")


_SHAPES: Final[Mapping[str, Callable[[JSONObject], None]]] = {
    "boolean-property": _replace_booleans,
    "type-array": _replace_type_list,
    "nullable-union": _replace_type_list,
    "array-without-items": _add_items,
    "unknown-required": _define_required,
    "array-of-union": _merge_items,
    "other-format": _describe_format,
}
"""The name of a shape -> the function that removes it from a subschema."""

_ROOT_SHAPES: Final[Mapping[str, Callable[[JSONObject], None]]] = {
    "open-object": _allow_additional,
    "shared-definition": _inline,
    "root-without-object": _add_object_type,
}
"""The name of a shape that only the root of a schema has -> the function that removes it."""


def _remove_dialect(settings: Settings, tool: JSONObject) -> None:
    if isinstance(schema := tool.get(settings["of"]), dict):
        schema.pop("$schema", None)


_NAME_CHANGES: Final[Mapping[str, Callable[[Settings, JSONObject, Sequence[str]], None]]] = {
    "name-length": _shorten_name,
    "name-characters": _replace_characters,
    "name-collision": _separate_name,
}
"""The kind of a fact -> the function that changes a tool's name; the last argument: other tools' names."""

_DEFINITION_CHANGES: Final[Mapping[str, Callable[[Settings, JSONObject], None]]] = {
    "argument-name": _rename_arguments,
    "text-length": _shorten_text,
    "keyword-refused": _remove_keywords,
    "schema-shape": _reshape,
    "wider-schema": _reshape,
    "dialect": _remove_dialect,
}
"""The kind of a fact -> the function that changes a tool's definition."""

REWRITTEN_KINDS: Final = frozenset((*_NAME_CHANGES, *_DEFINITION_CHANGES))
"""The kinds of facts that a rewritten tool can avoid."""


def tools_in(messages: Iterable[JSON]) -> list[JSONObject]:
    """Return the tools in the results of tools/list among ``messages``: of each name, the last one."""
    by_name: dict[str, JSONObject] = {}
    for message in messages:
        result = message.get("result") if isinstance(message, dict) else None
        tools = result.get("tools") if isinstance(result, dict) else None
        for tool in tools if isinstance(tools, list) else ():
            if isinstance(tool, dict) and isinstance(name := tool.get("name"), str):
                by_name[name] = tool
    return list(by_name.values())
