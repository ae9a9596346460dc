"""Servers without a handshake that want one nevertheless."""

from typing import Any

from tests.validate.scripted import Json, RefusedError, Server, flaw


@flaw
def era_by_opening(server: Server) -> None:
    """No flaw at all: a first request without version makes the whole process one of the older era."""
    good, found, era = server.result, server.is_modern, list[bool]()

    def result(method: str, params: dict[str, Any]) -> Json:
        if found(params) and method == "server/discover" and not era:
            return good(method, params)  # to look around decides nothing
        era.append(found(params))
        if not era[0] and method == "server/discover":
            return server.unknown(method)
        return good(method, params)

    server.result = result
    server.is_modern = lambda params: found(params) and all(era[:1])


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
