"""What may be wrong with a server over HTTP, one thing at a time."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.validate.http_server import META, Asked, Said, Site, flaw, refused, told
from tests.validate.scripted import STATELESS, Json, RefusedError

# What it accepts, and how it declines


@flaw
def accept_crash(site: Site) -> None:
    site.unacceptable = lambda asked: Said(500)


@flaw
def text_answer(site: Site) -> None:
    site.unacceptable = lambda asked: Said(
        200,
        json.dumps({"jsonrpc": "2.0", "id": asked.message["id"], "result": {}}).encode(),
        {"Content-Type": "text/plain"},
    )


@flaw
def notification_200(site: Site) -> None:
    site.notified = lambda: Said(200)


@flaw
def response_with_body(site: Site) -> None:
    site.answered = lambda: told({"ok": True}, 202)


@flaw
def get_html(site: Site) -> None:
    site.listen = lambda asked: Said(200, b"<p>Hello</p>", {"Content-Type": "text/html"})


@flaw
def get_404(site: Site) -> None:
    site.listen = lambda asked: Said(404)


@flaw
def replay_of_all(site: Site) -> None:
    def missed(id: str, last: str) -> list[tuple[str, str]]:
        names = [name for name, _ in site.sent[id]]
        return site.sent[id][names.index(last) + 1 :]

    site.missed = missed


@flaw
def endpoint_elsewhere(site: Site) -> None:
    site.endpoint = lambda key: (
        f"event: endpoint\ndata: http://localhost:{site.port}/messages?session={key}\n\n"
    )


@flaw
def late_endpoint(site: Site) -> None:
    good = site.endpoint
    site.endpoint = lambda key: f"event: message\ndata: hello\n\n{good(key)}"


@flaw
def any_origin(site: Site) -> None:
    site.trusts = lambda origin: True


@flaw
def origin_400(site: Site) -> None:
    good = site.handle
    site.handle = lambda asked: Said(400) if not site.trusts(asked.headers.get("origin")) else good(asked)


@flaw
def cut_when_large(site: Site) -> None:
    """It goes without a word from who sends more than it reads."""
    handle = site.handle

    def handled(asked: Asked) -> Said:
        if len(asked.body) > 1 << 20:
            raise ConnectionError
        return handle(asked)

    site.handle = handled


@flaw
def fragile(site: Site) -> None:
    """It is dead as soon as a client is gone that waits for the answer to a ping."""
    good, handle = site.answer, site.handle
    asked_now: list[Asked] = []

    def noted(asked: Asked) -> Said:
        asked_now[:] = [asked]
        return handle(asked)

    async def answer(said: Said, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if b'"ping"' in asked_now[0].body:
            for _ in range(80):
                if reader.at_eof() or site.is_dead:
                    site.is_dead = True
                    await asyncio.Event().wait()
                await asyncio.sleep(0.005)
        await good(said, reader, writer)

    site.handle, site.answer = noted, answer


# Sessions


@flaw
def one_id_for_all(site: Site) -> None:
    site.new_id = lambda: "0123456789abcdef"


@flaw
def odd_ids(site: Site) -> None:
    good = site.new_id
    site.new_id = lambda: f"session {good()}"


@flaw
def missing_id_404(site: Site) -> None:
    site.nameless = lambda: Said(404)


@flaw
def unknown_id_400(site: Site) -> None:
    site.unknown_session = lambda key: refused(-32000, "No valid session")


@flaw
def any_session(site: Site) -> None:
    def adopted(id: str) -> Said:
        site.sessions[id] = site.a_server()
        return told({"jsonrpc": "2.0", "id": "?", "result": {}})

    site.unknown_session = adopted


@flaw
def undying_sessions(site: Site) -> None:
    site.delete = lambda asked: Said(204)


@flaw
def any_version_header(site: Site) -> None:
    site.knows_version = lambda version: True


@flaw
def version_header_406(site: Site) -> None:
    good = site.stateful
    site.stateful = lambda asked, message: (
        Said(406)
        if not site.knows_version(asked.headers.get("mcp-protocol-version"))
        else good(asked, message)
    )


@flaw
def wanted_version_header(site: Site) -> None:
    good = site.knows_version
    site.knows_version = lambda version: version is not None and good(version)


# Authorization


@flaw
def guarded(site: Site) -> None:
    """That alone is no flaw."""
    site.is_guarded = True


@flaw
def no_metadata(site: Site) -> None:
    site.is_guarded, site.metadata = True, None


@flaw
def metadata_without_servers(site: Site) -> None:
    site.is_guarded, site.metadata = True, {"resource": "http://127.0.0.1/"}


@flaw
def metadata_without_resource(site: Site) -> None:
    site.is_guarded, site.metadata = True, {"authorization_servers": ["http://auth.invalid"]}


@flaw
def any_token(site: Site) -> None:
    site.is_guarded = True
    site.lets_in = lambda authorization: authorization.startswith("Bearer ")


@flaw
def token_403(site: Site) -> None:
    site.is_guarded = True
    good = site.handle
    site.handle = lambda asked: Said(403) if "authorization" in asked.headers else good(asked)


# Headers that repeat the body


@flaw
def blind_to_headers(site: Site) -> None:
    site.header_fault = lambda asked, message: ""


@flaw
def header_fault_600(site: Site) -> None:
    good = site.stateless
    site.stateless = lambda asked, message: (
        refused(-32600, "No", id=message["id"])
        if "id" in message and site.header_fault(asked, message)
        else good(asked, message)
    )


@flaw
def tires_of_posts(site: Site) -> None:
    good, answered = site.stateless, [0]

    def stateless(asked: Asked, message: Json) -> Said:
        answered[0] += 1
        return good(asked, message) if answered[0] <= 20 else Said(429)

    site.stateless = stateless


@flaw
def version_in_header_alone(site: Site) -> None:
    """It compares the header with a body that has no version, before it asks whether one is missing."""
    site.incomplete = lambda key, message: refused(-32020, "MCP-Protocol-Version differs", id=key)


@flaw
def invalid_params_600(site: Site) -> None:
    good = site.stateless
    site.stateless = lambda asked, message: (
        refused(-32600, "No", id=message["id"])
        if message["method"] == "tools/call" and "name" not in message["params"]
        else good(asked, message)
    )


@flaw
def undecoded_names(site: Site) -> None:
    site.decoded = lambda value: value


@flaw
def picky_about_case(site: Site) -> None:
    good = site.header_fault
    site.header_fault = lambda asked, message: (
        "Mcp-Method is missing" if "Mcp-Method" not in asked.names else good(asked, message)
    )


# Requests that carry their own version


def _changing(site: Site, method: str, change: Callable[[Json], Json]) -> None:
    good = site.modern.methods[method]
    site.modern.methods[method] = lambda params: change(good(params))


@flaw
def discovery_without_versions(site: Site) -> None:
    _changing(site, "server/discover", lambda result: _without(result, "supportedVersions"))


@flaw
def discovery_once(site: Site) -> None:
    good, asked = site.modern.methods["server/discover"], list[int]()

    def discover(params: dict[str, Any]) -> Json:
        asked.append(1)
        if len(asked) > 1:
            raise RefusedError(-32601, "Method not found")
        return good(params)

    site.modern.methods["server/discover"] = discover


def _completed(message: Json) -> Json:
    """The request as it should have been."""
    whole: Json = {f"{META}protocolVersion": STATELESS[-1], f"{META}clientCapabilities": {}}
    found: Json = {**message, "params": {**message["params"], "_meta": whole}}
    return found


@flaw
def content_with_less(site: Site) -> None:
    site.incomplete = lambda key, message: site.served(_completed(message))


@flaw
def incomplete_600(site: Site) -> None:
    site.incomplete = lambda key, message: refused(-32600, "_meta is incomplete", id=key)


@flaw
def incomplete_200(site: Site) -> None:
    site.incomplete = lambda key, message: refused(-32602, "_meta is incomplete", 200, key)


@flaw
def any_version(site: Site) -> None:
    site.unsupported = lambda key, version, message: site.served(_completed(message))


@flaw
def unsupported_601(site: Site) -> None:
    site.unsupported = lambda key, version, message: refused(-32601, "Method not found", id=key)


@flaw
def unsaid_versions(site: Site) -> None:
    site.unsupported = lambda key, version, message: refused(-32022, "Unsupported", id=key)


@flaw
def unknown_method_200(site: Site) -> None:
    good = site.served
    site.served = lambda message: replace(good(message), status=200)


@flaw
def ping_602(site: Site) -> None:
    good = site.modern.unknown

    def unknown(method: str) -> Json:
        if method == "ping":
            raise RefusedError(-32602, "Nothing of that kind")
        return good(method)

    site.modern.unknown = unknown


@flaw
def minted_ids(site: Site) -> None:
    good = site.served

    def served(message: Json) -> Said:
        found = good(message)
        return replace(found, headers={**found.headers, "Mcp-Session-Id": site.new_id()})

    site.served = served


@flaw
def offended_by_ids(site: Site) -> None:
    good = site.stateless
    site.stateless = lambda asked, message: (
        refused(-32600, "No sessions here", id=message["id"])
        if "mcp-session-id" in asked.headers
        else good(asked, message)
    )


@flaw
def get_200(site: Site) -> None:
    site.retired = lambda: told({"hello": "world"})


@flaw
def curt(site: Site) -> None:
    site.too_old = lambda key: refused(-32601, "Method not found", id=key)


@flaw
def one_era_at_a_time(site: Site) -> None:
    good = site.stateless
    site.stateless = lambda asked, message: (
        refused(-32600, "A session is open", id=message.get("id")) if site.sessions else good(asked, message)
    )


@flaw
def typeless(site: Site) -> None:
    good = site.modern.answer

    def answer(message: dict[str, Any]) -> Json:
        found = good(message)
        if message["method"] == "tools/list":
            del found["result"]["resultType"]
        return found

    site.modern.answer = answer


@flaw
def hintless(site: Site) -> None:
    _changing(site, "tools/list", lambda result: _without(result, "ttlMs"))


@flaw
def odd_scope(site: Site) -> None:
    _changing(site, "tools/list", lambda result: {**result, "cacheScope": "secret"})


def _without(result: Json, name: str) -> Json:
    return {key: value for key, value in result.items() if key != name}


# Asking for input


@flaw
def never_content(site: Site) -> None:
    good = site.ask

    def ask(params: dict[str, Any]) -> Json:
        if params.get("inputResponses"):
            raise RefusedError(-32602, "Not that")
        return good(params)

    site.ask = ask


@flaw
def insatiable(site: Site) -> None:
    good = site.ask
    site.ask = lambda params: good({name: params[name] for name in params if name != "inputResponses"})


@flaw
def empty_question(site: Site) -> None:
    good = site.asking
    site.asking = lambda declared: {"resultType": good(declared)["resultType"]}


@flaw
def asks_anyway(site: Site) -> None:
    good = site.asking
    site.asking = lambda declared: good({"elicitation": {}})


@flaw
def needs_602(site: Site) -> None:
    good = site.asking

    def asking(declared: Json) -> Json:
        if "elicitation" not in declared:
            raise RefusedError(-32602, "elicitation is needed")
        return good(declared)

    site.asking = asking


@flaw
def impatient(site: Site) -> None:
    good = site.ask

    def ask(params: dict[str, Any]) -> Json:
        if params.get("inputResponses") == {}:
            raise RefusedError(-32602, "The name is missing")
        return good(params)

    site.ask = ask


# Subscriptions


def _subscribing(site: Site, change: Callable[[Json, Said], Said]) -> None:
    good = site.subscribed
    site.subscribed = lambda key, wanted: change(key, good(key, wanted))


@flaw
def silent_subscription(site: Site) -> None:
    _subscribing(site, lambda key, said: replace(said, events=[]))


@flaw
def refused_subscription(site: Site) -> None:
    _subscribing(site, lambda key, said: refused(-32601, "Method not found", 404, key))


@flaw
def announces_nothing(site: Site) -> None:
    """It says that lists may change, and opens no subscription to such changes."""
    refused_subscription(site)
    declared = site.modern.declared
    site.modern.declared = lambda revision: {**declared(revision), "resources": {"listChanged": True}}


@flaw
def answered_subscription(site: Site) -> None:
    done = {"resultType": "complete", "ttlMs": 0}
    _subscribing(site, lambda key, said: told({"jsonrpc": "2.0", "id": key, "result": done}))


@flaw
def confused_subscriptions(site: Site) -> None:
    """The second one goes by the id of the first."""
    known: list[Json] = []

    def change(id: Json, said: Said) -> Said:
        known.append(id)
        spelled = [json.dumps(one) for one in (id, known[0])]
        assert said.events is not None
        key = '"io.modelcontextprotocol/subscriptionId": '
        return replace(said, events=[one.replace(key + spelled[0], key + spelled[1]) for one in said.events])

    _subscribing(site, change)


# What it names, and how much it sends


@flaw
def endpoint_on_another_host(site: Site) -> None:
    site.endpoint = lambda key: f"event: endpoint\ndata: http://127.0.0.2:{site.port}/messages\n\n"


@flaw
def endless_event(site: Site) -> None:
    site.initialize = lambda message: Said(200, events=["data: " + "x" * (17 << 20)])


@flaw
def endless_comment(site: Site) -> None:
    site.initialize = lambda message: Said(200, events=[":" + "x" * (17 << 20)], lasts=asyncio.Queue())


@flaw
def endless_body(site: Site) -> None:
    site.initialize = lambda message: Said(200, b" " * (17 << 20), {"Content-Type": "application/json"})
