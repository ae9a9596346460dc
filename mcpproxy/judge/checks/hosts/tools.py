"""Tools of a list that hosts refuse, change or hide: for their names, arguments, schemas or long texts.

Many hosts put the name under which the user knows the server before the name of a tool. No message has that
name, so limits are compared with the shortest one: the setting ``before`` is the least number of characters
that the host puts before a name. A tool *meets* a fact about a host if the host would do with it what the
fact says.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from mcpproxy.base.patterns import pattern
from mcpproxy.judge.checks.hosts.hits import Hit, Settings, Tools, words
from mcpproxy.judge.checks.hosts.schemas import dialects, keywords, shapes
from mcpproxy.protocol.jsonrpc import JSON
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.wording import shown, shown_name, token

Meets: TypeAlias = Callable[[Settings, Tools], Iterator[Hit]]
"""Yields the tools that meet a fact with these settings. The JSON Pointers begin at the list."""


def long_names(settings: Settings, tools: Tools) -> Iterator[Hit]:
    """Yield tools whose names are too long even after the shortest name of a server."""
    for index, name, _ in tools:
        length = len(name.encode("utf-8", "replace")) if settings["unit"] == "bytes" else len(name)
        if length + settings["before"] > settings["limit"]:
            yield Hit(f"/{index}/name", name, f"{length} {settings['unit']}")


def odd_names(settings: Settings, tools: Tools) -> Iterator[Hit]:
    """Yield tools whose names do not match the pattern of the host."""
    allowed = pattern(settings["pattern"])
    return (Hit(f"/{index}/name", name) for index, name, _ in tools if not allowed.fullmatch(name))


def merged_names(settings: Settings, tools: Tools) -> Iterator[Hit]:
    """Yield tools whose different names become equal when the host replaces characters and cuts."""
    first: dict[str, str] = {}
    others = pattern(f"[{settings['replaced']}]") if settings["replaced"] else None
    limit, ends, before = settings["limit"], settings["ends"], settings["before"]
    for index, name, _ in tools:
        new_name = others.sub(settings["by"], name) if others else name
        if limit and len(new_name) + before > limit:
            head, tail = ends or (limit, 0)
            new_name = new_name[: head - before] + "\0" + (new_name[-tail:] if tail else "")
        earlier = first.setdefault(new_name, name)
        if earlier != name:
            yield Hit(f"/{index}/name", name, f"as {shown_name(earlier)}")


def refused_arguments(settings: Settings, tools: Tools) -> Iterator[Hit]:
    """Yield tools with an argument whose name does not match the pattern of the host."""
    allowed = pattern(settings["pattern"])
    for index, name, tool in tools:
        arguments = member(tool.get("inputSchema"), "properties")
        odd = [key for key in arguments if not allowed.fullmatch(key)] if isinstance(arguments, dict) else []
        if odd:
            yield Hit(f"/{index}/inputSchema/properties{token(odd[0])}", name, words(map(shown, odd)))


def long_texts(settings: Settings, tools: Tools) -> Iterator[Hit]:
    """Yield tools whose description or schema is too long."""
    of, limit = settings["of"], settings["limit"]
    for index, name, tool in tools:
        if (size := size_of(tool.get(of), settings["unit"])) > limit:
            yield Hit(f"/{index}/{of}", name, f"{size:,} {settings['unit']}")


def size_of(value: JSON, unit: str) -> int:
    """Return the size of a text, or of the JSON text of another value, in characters or bytes (``unit``).

    It is 0 if there is no value.
    """
    if value is None:
        return 0
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return len(text.encode("utf-8", "replace")) if unit == "bytes" else len(text)


def hidden_tools(settings: Settings, tools: Tools) -> Iterator[Hit]:
    """Yield tools whose definition says who may see them, and does not name the model."""
    for index, name, tool in tools:
        visibility = member(tool.get("_meta"), "ui", "visibility")
        if isinstance(visibility, list) and "model" not in visibility:
            yield Hit(f"/{index}/_meta/ui/visibility", name)


MEETS: Final[Mapping[str, Meets]] = {
    "name-length": long_names,
    "name-characters": odd_names,
    "name-collision": merged_names,
    "argument-name": refused_arguments,
    "text-length": long_texts,
    "keyword-refused": keywords,
    "keyword-dropped": keywords,
    "schema-shape": shapes,
    "wider-schema": shapes,
    "dialect": dialects,
    "tool-hidden": hidden_tools,
}
"""By kind of fact: the function that finds the tools of a page that meet it."""
