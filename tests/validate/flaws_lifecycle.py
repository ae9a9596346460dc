"""Servers that take the handshake too lightly, or too seriously."""

import os
import sys
from typing import Any

from tests.validate.scripted import Json, RefusedError, Server, flaw


@flaw
def dies_of_ping(server: Server) -> None:
    """Its handler takes params for granted."""
    server.methods["ping"] = lambda params: sys.exit("KeyError: 'params'")


@flaw
def end_at_second_initialize(server: Server) -> None:
    good = server.initialize
    server.methods["initialize"] = lambda params: os._exit(1) if server.is_initialized else good(params)


@flaw
def no_ping_before_initialize(server: Server) -> None:
    def ping(params: dict[str, Any]) -> Json:
        if not server.is_initialized:
            raise RefusedError(-32600, "initialize comes first")
        return {}

    server.methods["ping"] = ping


@flaw
def offended_by_early_request(server: Server) -> None:
    good = server.result
    offended: list[str] = []

    def result(method: str, params: dict[str, Any]) -> Json:
        if offended:
            raise RefusedError(-32000, "You should have begun with initialize")
        if not server.is_initialized and method not in ("initialize", "ping"):
            offended.append(method)
        return good(method, params)

    server.result = result


@flaw
def end_at_early_request(server: Server) -> None:
    good = server.result
    server.result = lambda method, params: (
        os._exit(1) if not server.is_initialized and method != "initialize" else good(method, params)
    )


@flaw
def end_at_request_before_initialized(server: Server) -> None:
    """Its library takes nothing but the notification after initialize."""
    good = server.result
    server.result = lambda method, params: (
        os._exit(1) if server.is_initialized and not server.is_open else good(method, params)
    )


@flaw
def early_question(server: Server) -> None:
    """It asks before the client has said that it is ready."""
    good = server.methods["tools/list"]

    def tools(params: dict[str, Any]) -> Json:
        if not server.is_open:
            server.say({"jsonrpc": "2.0", "id": "s1", "method": "roots/list"})
        return good(params)

    server.methods["tools/list"] = tools


@flaw
def never_ready(server: Server) -> None:
    good = server.methods["tools/list"]
    early: list[bool] = []

    def tools(params: dict[str, Any]) -> Json:
        early.append(not server.is_open)
        if any(early):
            raise RefusedError(-32600, "You were too early")
        return good(params)

    server.methods["tools/list"] = tools


def _offers(server: Server, version: Json) -> None:
    good = server.initialize

    def initialize(params: dict[str, Any]) -> Json:
        result = good(params)
        if params["protocolVersion"] == result["protocolVersion"]:
            return result
        return {**result, "protocolVersion": params["protocolVersion"] if version is None else version}

    server.methods["initialize"] = initialize


@flaw
def any_version(server: Server) -> None:
    _offers(server, None)


@flaw
def version_in_words(server: Server) -> None:
    _offers(server, "latest")


@flaw
def refused_version(server: Server) -> None:
    """No flaw at all: to refuse is as good as to offer another."""
    good = server.initialize

    def initialize(params: dict[str, Any]) -> Json:
        if params["protocolVersion"] != "2025-11-25":
            raise RefusedError(-32602, "Unsupported protocol version", {"supported": ["2025-11-25"]})
        return good(params)

    server.methods["initialize"] = initialize


@flaw
def future_version(server: Server) -> None:
    good = server.initialize
    server.methods["initialize"] = lambda params: {**good(params), "protocolVersion": "2099-12-31"}


@flaw
def stateless_version(server: Server) -> None:
    good = server.initialize
    server.methods["initialize"] = lambda params: {**good(params), "protocolVersion": "2026-07-28"}


@flaw
def old_era(server: Server) -> None:
    """It knows the newer question, and only the older answer."""
    supported = {"supported": ["2024-11-05"], "requested": "2026-07-28"}

    def discover(params: dict[str, Any]) -> Json:
        raise RefusedError(-32022, "Unsupported protocol version", supported)

    server.methods["server/discover"] = discover


@flaw
def result_for_any_method(server: Server) -> None:
    """It speaks no revision without a handshake, and never says that it does not know a method."""
    del server.methods["server/discover"]
    server.is_modern = lambda params: False
    server.unknown = lambda method: {}


@flaw
def discovery_without_versions(server: Server) -> None:
    good = server.discover
    server.methods["server/discover"] = lambda params: {
        name: value for name, value in good(params).items() if name != "supportedVersions"
    }
