"""What hosts do with the results of calls: their size, kinds of content, structured content beside others."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import orjson

from mcpproxy.judge.checks.hosts.hits import words
from mcpproxy.protocol.jsonrpc import JSON, JSONObject

Settings: TypeAlias = Mapping[str, Any]

Loses: TypeAlias = Callable[[Settings, JSONObject], tuple[str, str] | None]
"""Returns what a fact with these settings meets in a result: its JSON Pointer in the result, and a clause."""


def large_result(settings: Settings, result: JSONObject) -> tuple[str, str] | None:
    """Find text in a result that is too long for the host: in one block, or with ``of`` in all of them."""
    sizes = [
        (f"/content/{index}", len(text))
        for index, block in _blocks(result)
        if block.get("type") == "text" and isinstance(text := block.get("text"), str)
    ]
    if not sizes:
        return None
    pointer, size = max(sizes, key=lambda each: each[1])
    if settings["of"] == "result":
        size = sum(each for _, each in sizes)
    return (pointer, f"{size:,} characters of text") if size > settings["limit"] else None


def dropped_content(settings: Settings, result: JSONObject) -> tuple[str, str] | None:
    """Find blocks of content of a kind that the host does not give to the model.

    The first ``after`` blocks of the kind are given to it. ``media`` are the beginnings of the media types
    that are meant, ``not_media`` of those that are not.
    """
    found = [
        (f"/content/{index}", _named(block))
        for index, block in _blocks(result)
        if block.get("type") in settings["types"] and _is_meant(settings, block)
    ][settings["after"] :]
    return (found[0][0], words(name for _, name in found)) if found else None


def hidden_content(settings: Settings, result: JSONObject) -> tuple[str, str] | None:
    """Find content that is lost beside structured content, because it says what that does not."""
    structured = result.get("structuredContent")
    if not isinstance(structured, dict) or result.get("isError") is True:
        return None
    known = _parts(structured)
    lost = [
        (f"/content/{index}", _named(block))
        for index, block in _blocks(result)
        if block.get("type") not in settings["keeps"] and _value(block) not in known
    ]
    return (lost[0][0], f"{words(name for _, name in lost)} of this result") if lost else None


def _parts(structured: JSONObject) -> list[JSON]:
    """Return what a text that repeats structured content, or a part of it, may say.

    Python SDKs wrap a value as {"result": value}, and give the value, or each item of a list, as a text.
    """
    members = list(structured.values())
    return [structured, *members, *(item for each in members if isinstance(each, list) for item in each)]


def _blocks(result: JSONObject) -> list[tuple[int, JSONObject]]:
    content = result.get("content")
    return [
        (index, block)
        for index, block in enumerate(content if isinstance(content, list) else ())
        if isinstance(block, dict)
    ]


def _is_meant(settings: Settings, block: JSONObject) -> bool:
    inside = block.get("resource")
    holder = inside if isinstance(inside, dict) else block
    if settings["blob"] and not isinstance(holder.get("blob"), str):
        return False
    media = holder.get("mimeType")
    if not settings["media"] and not settings["not_media"]:
        return True
    if not isinstance(media, str):
        return False
    if settings["media"] and not media.lower().startswith(tuple(settings["media"])):
        return False
    return not media.lower().startswith(tuple(settings["not_media"]) or "\0")


def _named(block: JSONObject) -> str:
    """Return what a block is, in words."""
    kind, inside = block.get("type"), block.get("resource")
    media = (inside if isinstance(inside, dict) else block).get("mimeType")
    name = kind.replace("_", " ") if isinstance(kind, str) else "content"
    return f"{name} {media[:60]}" if isinstance(media, str) and name != "text" else name


def _value(block: JSONObject) -> JSON:
    """Return the JSON in a block of text, or else the text; the block itself if it is none."""
    text = block.get("text")
    if block.get("type") != "text" or not isinstance(text, str):
        return block
    try:
        return orjson.loads(text)
    except ValueError:
        return text


LOSES: Final[Mapping[str, Loses]] = {
    "result-size": large_result,
    "content-dropped": dropped_content,
    "structured-content": hidden_content,
}
"""By kind of a fact: what it meets in the result of a call."""
