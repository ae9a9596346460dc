"""Parts of call results that hosts lose: long texts, kinds of content, content beside structured content.

A host is a program with an MCP client. A result *meets* a fact about it if the host would do with the result
what the fact says.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import orjson

from mcpproxy.judge.checks.hosts.hits import Settings, words
from mcpproxy.protocol.jsonrpc import JSON, JSONObject

Loses: TypeAlias = Callable[[Settings, JSONObject], tuple[str, str] | None]
"""Returns the part of a result that meets a fact with these settings: its JSON Pointer, and a description.

The JSON Pointer begins at the result. The function returns ``None`` if no part meets the fact.
"""


def large_result(settings: Settings, result: JSONObject) -> tuple[str, str] | None:
    """Find text in a result that is too long for the host: in one block, or in all blocks together.

    The setting ``of`` (``block`` or ``result``) says which of the two is limited, and ``limit`` is the number
    of characters.
    """
    sizes = [
        (f"/content/{index}", len(text))
        for index, block in _blocks(result)
        if block.get("type") == "text" and isinstance(text := block.get("text"), str)
    ]
    if not sizes:
        return None
    pointer, size = max(sizes, key=lambda pointer_and_size: pointer_and_size[1])
    if settings["of"] == "result":
        size = sum(length for _, length in sizes)
    return (pointer, f"{size:,} characters of text") if size > settings["limit"] else None


def dropped_content(settings: Settings, result: JSONObject) -> tuple[str, str] | None:
    """Find content blocks of a kind that the host does not give to the model.

    The setting ``types`` has the types of these blocks. The first ``after`` of them are given to the model.
    ``media`` has the beginnings of the media types that the fact is about, ``not_media`` those of its
    exceptions.
    """
    dropped = [
        (f"/content/{index}", _describe_block(block))
        for index, block in _blocks(result)
        if block.get("type") in settings["types"] and _is_of_kind(settings, block)
    ][settings["after"] :]
    return (dropped[0][0], words(name for _, name in dropped)) if dropped else None


def hidden_content(settings: Settings, result: JSONObject) -> tuple[str, str] | None:
    """Find content that the host drops because there is structured content, which does not repeat it.

    The setting ``keeps`` has the types of blocks that are not dropped. A result with ``isError`` is not
    searched.
    """
    structured = result.get("structuredContent")
    if not isinstance(structured, dict) or result.get("isError") is True:
        return None
    known = _repeated_values(structured)
    lost = [
        (f"/content/{index}", _describe_block(block))
        for index, block in _blocks(result)
        if block.get("type") not in settings["keeps"] and _text_value(block) not in known
    ]
    return (lost[0][0], f"{words(name for _, name in lost)} of this result") if lost else None


def _repeated_values(structured: JSONObject) -> list[JSON]:
    """Return the values that structured content repeats: all of it, its members, and the items of these.

    Python SDKs wrap a value as {"result": value}, and give the value, or each item of a list, as a text.
    """
    members = list(structured.values())
    return [structured, *members, *(item for value in members if isinstance(value, list) for item in value)]


def _blocks(result: JSONObject) -> list[tuple[int, JSONObject]]:
    content = result.get("content")
    return [
        (index, block)
        for index, block in enumerate(content if isinstance(content, list) else ())
        if isinstance(block, dict)
    ]


def _is_of_kind(settings: Settings, block: JSONObject) -> bool:
    """Whether a block has a media type that the fact is about and, if the setting ``blob`` is set, a blob."""
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


def _describe_block(block: JSONObject) -> str:
    """Return the type and the media type of a block, in words."""
    kind, inside = block.get("type"), block.get("resource")
    media = (inside if isinstance(inside, dict) else block).get("mimeType")
    name = kind.replace("_", " ") if isinstance(kind, str) else "content"
    return f"{name} {media[:60]}" if isinstance(media, str) and name != "text" else name


def _text_value(block: JSONObject) -> JSON:
    """Return the JSON value in a text block, or the text if it is not JSON; another block as it is."""
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
"""By kind of fact: the function that finds the part of a result that meets it."""
