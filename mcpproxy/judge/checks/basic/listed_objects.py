"""Find the objects that a result lists: tools, prompts, resources, resource templates, the contents of a
resource, and content blocks.

Checks of members that all of these may have, such as icons and ``_meta``, share this search.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from mcpproxy.judge.checks.engine.context import MessageContext
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
"""The member of a result that lists objects, by the method of the request."""


def listed_objects(context: MessageContext) -> Iterator[tuple[str, JSONObject]]:
    """Yield each object that a result lists (see ``MEMBERS``), with its JSON Pointer.

    The messages of a prompt are not yielded themselves, but their content blocks are.
    """
    message, request = context.message, context.answers
    if request is None or not isinstance(message, Response) or not isinstance(message.result, dict):
        return
    list_name = MEMBERS.get(request.method)
    items = message.result.get(list_name) if list_name else None
    if not isinstance(items, list):
        return
    for index, item in enumerate(items):
        pointer = f"{context.at}/result/{list_name}/{index}"
        if list_name == "messages" and isinstance(item, dict):
            item, pointer = item.get("content"), pointer + "/content"
        if isinstance(item, dict):
            yield pointer, item
