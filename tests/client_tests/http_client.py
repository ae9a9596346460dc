"""A client over HTTP with the standard library only; it keeps the protocol, but for the flaw that is named.

python http_client.py FLAW

It comes again for streams that end early, begins anew without its session, and logs in where it can.
"""

import base64
import hashlib
import http.client
import json
import os
import sys
import time
from collections.abc import Iterator
from typing import Any, NoReturn
from urllib.parse import parse_qs, urlencode, urlsplit

FLAW = sys.argv[1]
URL = urlsplit(os.environ["MCPPROXY_SERVER"])
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "visitor", "version": "1"},
}
BACK = "http://127.0.0.1:1/back"

ENOUGH = 40
"""How often a client comes back that is refused: more often than any may, and not until it is ended."""

session = token = ""
last_id = refusals = 0
is_connected = False


def send(
    method: str, url: str, body: bytes | None = None, headers: dict[str, str] | None = None
) -> tuple[http.client.HTTPResponse, http.client.HTTPConnection]:
    where = urlsplit(url)
    connection = http.client.HTTPConnection(str(where.hostname), where.port, timeout=60)
    target = where.path + (f"?{where.query}" if where.query else "")
    connection.request(method, target, body, headers or {})
    return connection.getresponse(), connection


def events(response: http.client.HTTPResponse) -> Iterator[dict[str, str]]:
    """Yield the events of a stream, also of one that is cut."""
    event: dict[str, str] = {}
    try:
        for raw in response:
            line = raw.decode().rstrip("\r\n")
            name, _, value = line.partition(":")
            if line and name:
                value = value.removeprefix(" ")
                event[name] = f"{event[name]}\n{value}" if name == "data" and name in event else value
            elif not line and event:
                yield event
                event = {}
    except http.client.IncompleteRead:
        return


def first(urls: list[str]) -> Any:
    """Return the first document that there is, ``None`` if there is none."""
    for url in urls:
        response, _ = send("GET", url)
        body = response.read()
        if response.status == 200:
            return json.loads(body)
    return None


def log_in(challenge: str) -> bool:
    """Find the authorization server, and get a token; return whether there is one."""
    global token
    origin = f"{URL.scheme}://{URL.netloc}"
    _, _, told = challenge.partition('resource_metadata="')
    places = [told.partition('"')[0]] if told else []
    known = f"{origin}/.well-known/oauth-protected-resource"
    resource = first([*places, known + URL.path, known])
    if resource is None:
        return False
    issuer = urlsplit(str(resource["authorization_servers"][0]))
    base = f"{issuer.scheme}://{issuer.netloc}"
    names = ("oauth-authorization-server", "openid-configuration")
    places = [f"{base}/.well-known/{name}{issuer.path}" for name in names]
    server = first([*places, f"{issuer.geturl()}/.well-known/{names[1]}"])
    if server is None:
        return False
    as_json = {"Content-Type": "application/json"}
    about = json.dumps({"redirect_uris": [BACK], "client_name": "visitor"}).encode()
    response, _ = send("POST", server["registration_endpoint"], about, as_json)
    client_id = json.loads(response.read())["client_id"]
    verifier = "v" * 43
    digest = hashlib.sha256(verifier.encode()).digest()
    asked = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": BACK,
        "state": "s",
        "resource": URL.geturl(),
        "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
        "code_challenge_method": "S256",
    }
    response, _ = send("GET", f"{server['authorization_endpoint']}?{urlencode(asked)}")
    code = parse_qs(urlsplit(str(response.getheader("Location"))).query)["code"][0]
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": BACK, "client_id": client_id}
    body = urlencode({**form, "code_verifier": verifier, "resource": URL.geturl()}).encode()
    as_form = {"Content-Type": "application/x-www-form-urlencoded"}
    response, _ = send("POST", server["token_endpoint"], body, as_form)
    token = json.loads(response.read())["access_token"]
    return True


def headers() -> dict[str, str]:
    told = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    told |= {"Authorization": f"Bearer {token}"} if token else {}
    told |= {"MCP-Protocol-Version": "2025-11-25"} if is_connected else {}
    return told | ({"Mcp-Session-Id": session} if session else {})


def give_up() -> NoReturn:
    sys.exit("the server does not let me in")


def post(message: dict[str, Any]) -> Any:
    """Send a message; return the answer to it, ``None`` without one."""
    global session, refusals
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    response, _ = send("POST", URL.geturl(), body, headers())
    if response.status == 401:
        response.read()
        if FLAW == "never-stops":
            refusals += 1
            return post(message) if refusals < ENOUGH else give_up()
        if not token and FLAW != "cannot-log-in" and log_in(str(response.getheader("WWW-Authenticate"))):
            return post(message)
        give_up()
    if response.status == 404 and message["method"] != "initialize":
        response.read()
        if FLAW == "keeps-session":
            refusals += 1
            if refusals > 1:
                give_up()
            time.sleep(1.2)  # what comes within a second may have been on its way
        else:
            session = ""
            connect()
        return post({**message, "id": next_id()})
    session = response.getheader("Mcp-Session-Id") or session
    if "id" not in message:
        response.read()
        return None
    if response.getheader("Content-Type") == "application/json":
        return json.loads(response.read())
    return answer_in(response, message["id"])


def answer_in(response: http.client.HTTPResponse, wanted: int) -> Any:
    """Return the answer in a stream, or in one that goes on after it."""
    last = ""
    retry_s = 0.0
    for event in events(response):
        last = event.get("id", last)
        retry_s = int(event.get("retry", "0")) / 1000 or retry_s
        found: Any = json.loads(event["data"]) if event.get("data") else {}
        if found.get("method") == "ping":
            post_answer(found["id"])
        elif found.get("id") == wanted or (FLAW == "believes-any-id" and "id" in found):
            return found
    if not last or FLAW == "never-comes-again":
        sys.exit("the stream has ended")
    if FLAW != "hasty":
        time.sleep(retry_s)
    again, _ = send("GET", URL.geturl(), None, {**headers(), "Last-Event-ID": last})
    return answer_in(again, wanted)


def post_answer(request_id: Any) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": request_id, "result": {}}).encode()
    send("POST", URL.geturl(), body, headers())[0].read()


def next_id() -> int:
    global last_id
    last_id += 1
    return last_id


def ask(method: str, params: Any = None) -> Any:
    given = {} if params is None else {"params": params}
    return post({"id": next_id(), "method": method, **given})


def connect() -> None:
    global is_connected
    is_connected = False
    ask("initialize", HELLO)
    is_connected = True
    post({"method": "notifications/initialized"})


connect()
if FLAW == "logs-in-twice":
    log_in("")
tools = ask("tools/list")["result"]["tools"]
ask("tools/call", {"name": tools[0]["name"], "arguments": {"text": "hello"}})
if FLAW == "never-comes-again":
    ask("ping")
send("DELETE", URL.geturl(), None, headers())[0].read()
