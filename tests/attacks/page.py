"""The page of recordings: who gets at it, and what a recording from elsewhere makes it do."""

import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from secrets import token_urlsafe
from typing import Any, Final
from urllib.parse import urlsplit

from tests.attacks.folders import Scene
from tests.attacks.stage import PYTHON, Stage, Table, hold, is_line, read
from tests.cli import recordings

TABLE: Final = Table()


class Page:
    """``mcpproxy ui`` on the scene's folder."""

    def __init__(self, stage: Stage, *options: str) -> None:
        self._process = stage.start("ui", "f", *options)
        address = urlsplit(read(self._process.stdout, is_line).decode().strip())
        self._authority, self.ticket = address.netloc, address.query.removeprefix("token=")

    def ask(
        self, path: str, fields: dict[str, str] | None = None, body: object = None
    ) -> tuple[HTTPResponse, bytes]:
        connection = HTTPConnection(self._authority, timeout=60)
        method, sent = ("GET", None) if body is None else ("POST", json.dumps(body))
        connection.request(method, path, sent, fields or {})
        answer = connection.getresponse()
        said = answer.read()
        connection.close()
        return answer, said

    def enters(self) -> dict[str, str]:
        """What a browser that opens the printed address sends from then on; nothing if it is refused."""
        entered, _ = self.ask(f"/?token={self.ticket}")
        if cookie := entered.headers.get("Set-Cookie"):
            return {"Cookie": cookie.partition(";")[0]}
        key = token_urlsafe(32)
        fields = {"Authorization": f"Bearer {self.ticket}", "Mcpproxy-Key": key}
        given, _ = self.ask("/api/key", fields, {})
        return {"Authorization": f"Bearer {key}"} if given.status == 204 else {}

    def one(self, fields: dict[str, str]) -> str:
        """The path of the only recording."""
        _, said = self.ask("/api/recordings", fields)
        return f"/api/recordings/{json.loads(said)['recordings'][0]['id']}"


@contextmanager
def _page(stage: Stage, *options: str, trace: tuple[str, ...] = recordings.CLEAN) -> Generator[Page]:
    scene = Scene(stage.folder)
    recordings.write(scene.trace, trace)
    yield Page(stage, *options)


@TABLE
def arguments_of_the_browser(stage: Stage) -> str:
    """No process has the secret of the page as an argument, which every user can read."""
    seen = stage.folder / "seen"
    script = stage.folder / "browser.py"
    script.write_text(
        "import os, sys\nfile = open(sys.argv[1] + '~', 'w')\nprint(*sys.argv[2:], file=file)\n"
        "file.close()\nos.rename(sys.argv[1] + '~', sys.argv[1])\n"
    )
    stage.env["BROWSER"] = f"{' '.join(PYTHON)} {script} {seen} %s"
    with _page(stage, "--open"):
        for _ in stage.looks("the browser"):
            if seen.exists():
                break
        hold("token=" not in seen.read_text(), "the browser got the token as an argument")
    return "a file is opened"


@TABLE
def an_address_used_twice(stage: Stage) -> str:
    """An address that was seen somewhere opens nothing after it was used."""
    with _page(stage) as page:
        hold(page.enters(), "the first use is refused")
        again = page.enters()
        hold(not again, f"the second use is answered with {', '.join(again)}")
        used = {"Authorization": f"Bearer {page.ticket}"}
        hold(page.ask("/api/recordings", used)[0].status == 401, "its token reads recordings")
    return "refused"


@TABLE
def a_cookie_at_another_port(stage: Stage) -> str:
    """What a browser sends to a server at another port of this machine opens nothing here."""
    with _page(stage) as page:
        sent = {name: value for name, value in page.enters().items() if name == "Cookie"}
        status = page.ask("/api/recordings", sent)[0].status
        hold(status == 401, f"the cookie of the page, which goes to every port: {status}")
    return "no cookie"


def _calls(command: list[str]) -> tuple[str, ...]:
    """A call of a tool that says that it only reads, in a recording with this command."""
    about = json.loads(recordings.CLEAN[0]) | {"command": command, "cwd": os.sep}
    tool = {"name": "t", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
    said: tuple[tuple[str, dict[str, Any]], ...] = (
        ("client", {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}),
        ("server", {"jsonrpc": "2.0", "id": 2, "result": {"tools": [tool]}}),
        ("client", {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "t"}}),
        ("server", {"jsonrpc": "2.0", "id": 3, "result": {"content": []}}),
    )
    frames = [
        recordings.frame(number, sender, json.dumps(message))
        for number, (sender, message) in enumerate(said, 4)
    ]
    return json.dumps(about), *recordings.HANDSHAKE[1:], *frames, recordings.close(4, 3)


@TABLE
def the_command_of_a_recording(stage: Stage) -> str:
    """A command of a recording from elsewhere runs only after the user has confirmed it."""
    ran = stage.folder / "ran"
    trace = _calls(["/bin/sh", "-c", f"touch {ran}"])
    with _page(stage, "--allow-send", trace=trace) as page:
        fields = page.enters()
        one = page.one(fields)
        _, said = page.ask(f"{one}/calls", fields)
        calls = [row["number"] for row in json.loads(said)["rows"] if row["method"] in ("tools/call", "ping")]
        hold(calls, "the recording has no call")
        for call in calls:
            page.ask(f"{one}/send", fields, {"call": call, "params": {"name": "t"}, "confirmed": False})
        hold(not ran.exists(), "it ran")
    return "refused"


@TABLE
def the_source_of_a_finding(stage: Stage) -> str:
    """A finding of a recording leads to no other site than those that the rules cite."""
    odd = ("javascript:alert(1)", "https://evil.example/", "https://modelcontextprotocol.io@evil.example/")
    # Findings that say the same would be one.
    said = zip(("the first", "another", "one more"), odd, strict=True)
    found = [
        json.dumps(json.loads(recordings.finding("PROTO-007", 2, m)) | {"source": one}) for m, one in said
    ]
    trace = (*recordings.CLEAN[:-1], *found, recordings.close(3, 2, errors=len(odd)))
    with _page(stage, trace=trace) as page:
        fields = page.enters()
        _, answer = page.ask(f"{page.one(fields)}/findings", fields)
        (rule,) = json.loads(answer)
        links = [one["link"] for one in rule["findings"] if one["link"]]
        hold(not links, f"links to {', '.join(links)}")
        hold(len(rule["findings"]) == len(odd), "the findings are not there")
    return "shown as text"


@TABLE
def a_time_that_is_not_finite(stage: Stage) -> str:
    """Odd numbers in a query are no failure of the page."""
    with _page(stage) as page:
        fields = page.enters()
        one = page.one(fields)
        asked = [
            f"{one}/spans?{name}={odd}" for name in ("from", "to") for odd in ("inf", "nan", "1e999", "-inf")
        ]
        asked += [f"{one}/calls?start={'9' * 30}", f"{one}/position?call={'9' * 30}"]
        failed = [path for path in asked if page.ask(path, fields)[0].status >= 500]
        hold(
            not failed, f"{len(failed)} of {len(asked)} fail, {failed and failed[0].rpartition('/')[2][:40]}"
        )
    return f"{len(asked)} answered"
