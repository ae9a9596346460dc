"""A client written from the text of the specification alone, on stdio and over HTTP: ``spec_client.py FLAW``.

It keeps the protocol of 2025-11-25 and of the revisions before, but for the flaw that is named. It declares
all that a server may ask for, and cancels a call that is not answered in time. Its server is in
``MCPPROXY_SERVER``.
"""

import http.client
import json
import os
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from queue import Empty, Queue
from typing import Any, Final
from urllib.parse import urlsplit

SERVER: Final = os.environ["MCPPROXY_SERVER"]
_BY_SERVER: Final = dict(pair.split(":") for pair in sys.argv[1].split(",") if ":" in pair)
FLAW: Final = (
    next((flaw for name, flaw in _BY_SERVER.items() if name in shlex.split(SERVER)), "none")
    if _BY_SERVER
    else sys.argv[1]
)
REVISIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
PATIENCE_S: Final = 6.0
COMPUTES_S: Final = 3.0
METHOD_NOT_FOUND: Final = -32601


def is_object(value: Any) -> bool:
    return isinstance(value, dict)


class GivesUpError(Exception):
    """The server does something with which this client cannot go on; the text says what."""


class OverStdio:
    """The server as a process: each message is a line of UTF-8 without line breaks in it."""

    def __init__(self) -> None:
        self.came: Final[Queue[Any]] = Queue()
        self.revision = ""
        self._first = b""
        self._process: Final = subprocess.Popen(
            shlex.split(SERVER), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        threading.Thread(target=self._read, daemon=True).start()

    def send(self, message: Any) -> None:
        assert self._process.stdin is not None
        pretty = FLAW == "line-breaks" and message.get("method") == "tools/list"
        line = json.dumps(message, indent=1 if pretty else None).encode()
        if FLAW == "latin-1" and message.get("method") == "tools/list":
            line = line[:-1] + b', "x-place": "K\xf6ln"}'
        if FLAW == "token-twice" and message.get("method") == "tools/call" and not self._first:
            self._first = line + b"\n"  # it is written with the second: both are open at once
            return
        with suppress(OSError):  # what a server that has gone said last is read in any case
            self._process.stdin.write(self._first + line + b"\n")
            self._process.stdin.flush()

    def close(self) -> None:
        """Close the input of the server, and wait for it; then end it."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        for end in (lambda: None, self._process.terminate, self._process.kill):
            end()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(3)
                return

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with suppress(ValueError, RecursionError):
                self.came.put(json.loads(line))
        self.came.put(None)


class OverHttp:
    """The server at a URL: each message is a POST, whose response is a JSON object or a stream of events."""

    def __init__(self) -> None:
        self.came: Final[Queue[Any]] = Queue()
        self.revision = ""
        self._url: Final = urlsplit(SERVER)
        self._session = ""

    def send(self, message: Any) -> None:
        threading.Thread(target=self._post, args=(message,), daemon=True).start()

    def send_and_wait(self, message: Any) -> None:
        self._post(message)

    def listen(self) -> None:
        """Open the stream for messages that belong to no request of ours."""
        threading.Thread(target=self._get, daemon=True).start()

    def forget(self) -> None:
        """Forget the session, so that another one can begin."""
        self._session = self.revision = ""

    def close(self) -> None:
        """End the session."""
        if self._session:
            with suppress(OSError, http.client.HTTPException):
                self._open("DELETE", None)[1].read()

    def _open(self, verb: str, message: Any) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        assert self._url.hostname is not None
        connection = http.client.HTTPConnection(self._url.hostname, self._url.port)
        accepted = "text/event-stream" if verb == "GET" else "application/json, text/event-stream"
        if FLAW == "accepts-json-only" and verb == "POST":
            accepted = "application/json"
        headers = {"Accept": accepted}
        content = None
        if message is not None:
            headers["Content-Type"] = "application/json"
            in_array = FLAW == "batch" and message.get("method") == "tools/list"
            content = json.dumps([message] if in_array else message).encode()
        if self._session and FLAW != "forgets-session":
            headers["Mcp-Session-Id"] = self._session
        if self.revision > "2025-03-26" and FLAW != "no-revision-header":
            headers["MCP-Protocol-Version"] = self.revision
        connection.request(verb, self._url.path, content, headers)
        return connection, connection.getresponse()

    def _post(self, message: Any) -> None:
        try:
            _, response = self._open("POST", message)
            self._session = response.getheader("Mcp-Session-Id") or self._session
            kind = (response.getheader("Content-Type") or "").partition(";")[0].strip()
            if response.status == 202:
                response.read()
            elif response.status != 200:
                self.came.put(GivesUpError(f"status {response.status} for {message.get('method')}"))
            elif kind == "text/event-stream":
                self._take_events(response)
            elif kind == "application/json":
                self.came.put(json.loads(response.read()))
            else:
                self.came.put(GivesUpError(f"a body of type {kind}"))
        except (OSError, http.client.HTTPException, ValueError) as fault:
            self.came.put(GivesUpError(f"{type(fault).__name__}: {fault}"))

    def _get(self) -> None:
        with suppress(OSError, http.client.HTTPException):
            _, response = self._open("GET", None)
            if response.status == 200:
                self._take_events(response)

    def _take_events(self, response: http.client.HTTPResponse) -> None:
        data: list[str] = []
        for raw in response:
            line = raw.decode("utf-8", errors="replace").rstrip("\r\n")
            name, _, value = line.partition(":")
            if name == "data":
                data.append(value.removeprefix(" "))
            elif not line and data:
                with suppress(ValueError):
                    self.came.put(json.loads("\n".join(data)))
                data.clear()


class Client:
    """One session of the client."""

    def __init__(self, transport: OverStdio | OverHttp) -> None:
        self._transport: Final = transport
        self._last_id = 0

    def use(self) -> None:
        """Do with the server all that it offers."""
        offered = self.open()
        if "tools" in offered:
            for tool in list(self._pages("tools/list", "tools")):
                if not is_object(tool) or not isinstance(tool.get("name"), str):
                    raise GivesUpError("a tool without a name")
                self._call(tool["name"])
        if "resources" in offered:
            for resource in list(self._pages("resources/list", "resources"))[:1]:
                self._ask("resources/read", {"uri": resource["uri"]})
        if "prompts" in offered:
            for prompt in list(self._pages("prompts/list", "prompts"))[:1]:
                given = {argument["name"]: "x" for argument in prompt.get("arguments", [])}
                self._ask("prompts/get", {"name": prompt["name"], "arguments": given})

    def open(self) -> Any:
        """Shake hands; return the capabilities of the server."""
        hello: dict[str, Any] = {
            "protocolVersion": REVISIONS[-1],
            "capabilities": {"roots": {"listChanged": False}, "sampling": {}, "elicitation": {}},
            "clientInfo": {"name": "from-the-text", "version": "1"},
        }
        if FLAW == "no-client-info":
            del hello["clientInfo"]
        if FLAW == "numeric-revision":
            hello["protocolVersion"] = 20251125
        number = self._begin("initialize", hello)
        if FLAW == "initialized-at-once":
            self._notify("notifications/initialized")
        if FLAW == "cancels-initialize":
            self._notify("notifications/cancelled", {"requestId": number})
        result = self._answer_to({number})[number]
        revision, offered = result.get("protocolVersion"), result.get("capabilities")
        if revision not in REVISIONS or not is_object(offered):
            raise GivesUpError(f"revision {revision}, capabilities {offered}")
        self._transport.revision = revision
        if FLAW == "initialized-as-request":
            self._begin("notifications/initialized")
        elif FLAW != "initialized-at-once":
            self._notify("notifications/initialized")
        if isinstance(self._transport, OverHttp):
            self._transport.listen()
        return offered

    def _pages(self, method: str, member: str) -> Iterator[Any]:
        cursor = None
        while True:
            result = self._ask(method, {} if cursor is None else {"cursor": cursor})
            if not isinstance(result.get(member), list):
                raise GivesUpError(f"{method} without {member}")
            yield from result[member]
            cursor = result.get("nextCursor")
            if cursor is None:
                return

    def _call(self, name: str) -> None:
        params: dict[str, Any] = {"name": name, "arguments": {"text": "hello"}}
        if FLAW == "call-without-name":
            del params["name"]
        if FLAW == "token-of-wrong-type":
            params["_meta"] = {"progressToken": {"a": 1}}
        if FLAW == "token-twice":
            params["_meta"] = {"progressToken": "same"}
            calls = {self._begin("tools/call", params), self._begin("tools/call", params)}
            self._answer_to(calls)
            return
        result = self._ask("tools/call", params)
        if not isinstance(result.get("content"), list):
            raise GivesUpError("a result without content")

    def _ask(self, method: str, params: Any = None) -> Any:
        number = self._begin(method, params)
        try:
            return self._answer_to({number})[number]
        except Empty:
            if method == "initialize":
                raise GivesUpError("initialize is not answered") from None
            self._notify("notifications/cancelled", {"requestId": number, "reason": "no answer in time"})
            raise GivesUpError(f"{method} is not answered") from None

    def _begin(self, method: str, params: Any = None) -> int:
        self._last_id += 1
        asked: dict[str, Any] = {"jsonrpc": "2.0", "id": self._last_id, "method": method}
        if FLAW == "no-jsonrpc" and method == "tools/list":
            del asked["jsonrpc"]
        if FLAW == "null-id" and method == "tools/list":
            asked["id"] = None
        if params is not None:
            asked["params"] = params
        self._transport.send(asked)
        return self._last_id

    def _notify(self, method: str, params: Any = None) -> None:
        message = {"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})}
        if isinstance(self._transport, OverHttp):
            self._transport.send_and_wait(message)
        else:
            self._transport.send(message)

    def _answer_to(self, numbers: set[int]) -> dict[int, Any]:
        """Return the results of these requests; answer what the server asks meanwhile.

        Raises:
            queue.Empty: nothing came for a while.
            GivesUpError: the answer is none, or an error, or the server has gone.
        """
        results: dict[int, Any] = {}
        while numbers - set(results):
            message = self._transport.came.get(timeout=PATIENCE_S)
            if message is None:
                raise GivesUpError("the server has gone")
            if isinstance(message, GivesUpError):
                raise message
            if not is_object(message):
                continue
            if "method" in message:
                self._hear(message)
                continue
            number = message.get("id")
            if type(number) is not int or number not in numbers:
                continue
            if message.get("jsonrpc") != "2.0" or is_object(message.get("result")) == ("error" in message):
                raise GivesUpError("an answer that is none")
            if "error" in message:
                raise GivesUpError(f"an error: {message['error']}")
            results[number] = message["result"]
        return results

    def _hear(self, message: Any) -> None:
        if "id" not in message:
            if FLAW == "answers-notifications":
                self._transport.send({"jsonrpc": "2.0", "id": 77, "result": {}})
            return
        match message["method"]:
            case "ping":
                answer: Any = {"result": None if FLAW == "null-result" else {}}
                if FLAW == "result-and-error":
                    answer["error"] = {"code": -1, "message": "no"}
            case "roots/list":
                uri = "https://example.com/" if FLAW == "root-at-url" else "file:///srv/example"
                answer = {"result": {"roots": [{"uri": uri}]}}
            case "sampling/createMessage":
                said = {"type": "text", "text": "yes"}
                result = {"role": "assistant", "content": said, "model": "none"}
                if FLAW == "sample-without-model":
                    del result["model"]
                answer = {"result": result}
            case "elicitation/create":
                answer = {"result": {"action": "maybe" if FLAW == "elicits-maybe" else "decline"}}
            case _:
                code: Any = "-32601" if FLAW == "code-as-text" else METHOD_NOT_FOUND
                answer = {"error": {"code": code, "message": "Method not found"}}
        self._transport.send({"jsonrpc": "2.0", "id": message["id"], **answer})


def main() -> None:
    if FLAW == "starts-twice":
        first = OverStdio()
        Client(first).open()
        first.close()
    transport = OverHttp() if SERVER.startswith("http") else OverStdio()
    trouble = ""
    try:
        Client(transport).use()
    except GivesUpError as reason:
        trouble = str(reason)
        if FLAW == "begins-anew" and isinstance(transport, OverHttp) and "404" in trouble:
            transport.forget()
            Client(transport).use()
            trouble = ""
    except Empty:
        trouble = "the server is silent"
    finally:
        transport.close()
    while FLAW == "computes" and time.process_time() < COMPUTES_S:
        pass
    sys.exit(trouble or None)


main()
