"""What goes wrong on the walk of a good client."""

import os
from typing import Any

from tests.validate.scripted import SILENT, Handler, Json, RefusedError, Server, flaw


def refuse(code: int = -32603) -> Handler:
    """A handler that refuses everything."""

    def handler(params: dict[str, Any]) -> Json:
        raise RefusedError(code, "I would rather not")

    return handler


@flaw
def mute_initialize(server: Server) -> None:
    server.methods["initialize"] = lambda params: SILENT


@flaw
def nameless_revision(server: Server) -> None:
    server.methods["initialize"] = lambda params: {"capabilities": {}}


@flaw
def silent_ping(server: Server) -> None:
    server.methods["ping"] = lambda params: SILENT


@flaw
def refused_ping(server: Server) -> None:
    server.methods["ping"] = refuse()


@flaw
def tools_without_list(server: Server) -> None:
    server.methods["tools/list"] = lambda params: {"tool": []}


@flaw
def tool_that_ends_it(server: Server) -> None:
    server.methods["tools/call"] = lambda params: os._exit(3)


@flaw
def circular_pages(server: Server) -> None:
    server.methods["resources/list"] = lambda params: {"resources": [], "nextCursor": "again"}


@flaw
def refused_templates(server: Server) -> None:
    server.methods["resources/templates/list"] = refuse()


@flaw
def unreadable_resources(server: Server) -> None:
    server.methods["resources/read"] = refuse(-32002)


@flaw
def refused_prompts(server: Server) -> None:
    server.methods["prompts/list"] = refuse()


@flaw
def ungettable_prompts(server: Server) -> None:
    server.methods["prompts/get"] = refuse()


@flaw
def nameless_prompt(server: Server) -> None:
    server.prompts.insert(0, {"arguments": [{"name": "language", "required": True}]})


@flaw
def refused_completion(server: Server) -> None:
    server.methods["completion/complete"] = refuse()


@flaw
def refused_level(server: Server) -> None:
    server.methods["logging/setLevel"] = refuse()
