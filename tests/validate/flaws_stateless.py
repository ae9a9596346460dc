"""Servers without a handshake that want one nevertheless."""

from typing import Any

from tests.validate.scripted import Json, RefusedError, Server, flaw


@flaw
def discovery_first(server: Server) -> None:
    good, discovered = server.result, list[str]()

    def result(method: str, params: dict[str, Any]) -> Json:
        if method == "server/discover":
            discovered.append(method)
        elif server.is_modern(params) and not discovered:
            raise RefusedError(-32603, "Who are you?")
        return good(method, params)

    server.result = result
