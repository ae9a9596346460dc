"""The objects that a result lists: tools, resources, prompts, and the content of what was asked for.

What holds for each of them, whatever it is, need not know where they stand.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from mcpproxy.checks.engine.context import MessageContext
from mcpproxy.protocol.jsonrpc import JSONObject, Response

MEMBERS: Final[Mapping[str, str]] = {
    "tools/list": "tools",
    "tools/call": "content",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "resources/read": "contents",
    "prompts/list": "prompts",
    "prompts/get": "messages",
}
"""The member of a result that lists objects, by the method that was asked for."""


def described(context: MessageContext) -> Iterator[tuple[str, JSONObject]]:
    """Each object that an answer to one of ``MEMBERS`` lists, with its JSON Pointer."""
    message, asked = context.message, context.answers
    if asked is None or not isinstance(message, Response) or not isinstance(message.result, dict):
        return
    name = MEMBERS.get(asked.method)
    listed = message.result.get(name) if name else None
    if not isinstance(listed, list):
        return
    for index, item in enumerate(listed):
        pointer = f"{context.at}/result/{name}/{index}"
        if name == "messages" and isinstance(item, dict):
            item, pointer = item.get("content"), pointer + "/content"
        if isinstance(item, dict):
            yield pointer, item
