"""Credentials: what must not stand in a recording, and what must not reach the server."""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.attacks.proxied import Origin, Proxied
from tests.attacks.stage import Stage, Table, hold

TABLE: Final = Table()

MARKER: Final = "not-a-secret"
"""Something that is to be recorded: without it nothing was."""


def _secret(name: str) -> str:
    return f"hush.{name}.0123456789"


def _masked(trace: bytes, names: Iterable[str], what: str) -> str:
    hold(MARKER.encode() in trace, "it is not recorded at all")
    left = [name for name in names if _secret(name).encode() in trace]
    hold(not left, f"unmasked: {', '.join(left)}")
    return f"{what} masked"


HEADERS: Final = (
    "X-RapidAPI-Key", "Ocp-Apim-Subscription-Key", "X-Functions-Key", "X-Authorization", "X-JWT",
    "Session-Id", "Signature", "Authorization", "X-Api-Key",
)  # fmt: skip


@TABLE
def headers(stage: Stage) -> str:
    """Header fields of requests and answers that hold a key are masked, whatever their exact name."""
    with Origin() as origin:
        origin.fields = [f"{name}: {_secret(f'{name}-back')}".encode() for name in HEADERS]
        with Proxied(stage, origin) as proxied:
            proxied.ask("GET", "/x", fields={"X-Marker": MARKER, **{name: _secret(name) for name in HEADERS}})
            names = [*HEADERS, *(f"{name}-back" for name in HEADERS)]
            return _masked(proxied.stop(), names, f"{len(names)} fields")


PARAMETERS: Final = ("api-key", "key", "sig", "jwt", "pwd", "authToken", "access_token")


@TABLE
def parameters(stage: Stage) -> str:
    """Parameters of a URL that hold a key are masked."""
    with Origin() as origin, Proxied(stage, origin) as proxied:
        query = "&".join(f"{name}={_secret(name)}" for name in PARAMETERS)
        proxied.ask("GET", f"/x?a={MARKER}&{query}")
        return _masked(proxied.stop(), PARAMETERS, f"{len(PARAMETERS)} parameters")


MEMBERS: Final = ("accessToken", "clientSecret", "refreshToken", "private_key", "session_token")


@TABLE
def members(stage: Stage) -> str:
    """Members of JSON that hold a key are masked, in lists and objects, asked and answered."""

    def made(suffix: str) -> bytes:
        flat = {name: _secret(name + suffix) for name in MEMBERS}
        deep = [{"x": [{name: _secret(f"{name}-deep{suffix}")}]} for name in MEMBERS]
        lists = {"accessTokens": [_secret(f"list{suffix}")], "credentials": {"a": _secret(f"object{suffix}")}}
        return json.dumps({"a": MARKER, **flat, "deep": deep, **lists}).encode()

    with Origin() as origin:
        origin.answer = made("-back")
        with Proxied(stage, origin) as proxied:
            proxied.ask("POST", "/token", made(""), {"Content-Type": "application/json"})
            kinds = [*MEMBERS, *(f"{name}-deep" for name in MEMBERS), "list", "object"]
            return _masked(proxied.stop(), [*kinds, *(f"{name}-back" for name in kinds)], "all members")


@TABLE
def parts_of_forms(stage: Stage) -> str:
    """Parts of a multipart form that hold a key are masked."""
    part = '--B\r\nContent-Disposition: form-data; name="{}"\r\n\r\n{}\r\n'
    body = part.format("a", MARKER) + part.format("client_secret", _secret("part")) + "--B--\r\n"
    with Origin() as origin, Proxied(stage, origin) as proxied:
        proxied.ask("POST", "/token", body.encode(), {"Content-Type": "multipart/form-data; boundary=B"})
        return _masked(proxied.stop(), ["part"], "the part")


@TABLE
def forms_behind_a_mark(stage: Stage) -> str:
    """A form behind a byte order mark is masked as any other."""
    body = f"a={MARKER}&client_secret={_secret('form')}&password={_secret('password')}"
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    with Origin() as origin, Proxied(stage, origin) as proxied:
        proxied.ask("POST", "/token", b"\xef\xbb\xbf" + b"password=" + _secret("first").encode(), kind)
        proxied.ask("POST", "/token", b"\xef\xbb\xbf" + body.encode(), kind)
        return _masked(proxied.stop(), ["form", "password", "first"], "the form")


@TABLE
def bodies_that_name_jsonrpc(stage: Stage) -> str:
    """A body that contains "jsonrpc" and is no JSON-RPC message is masked as any other."""
    bodies = {
        "text": {"x": '"jsonrpc"', "token": _secret("text")},
        "deeper": {"x": {"jsonrpc": "2.0", "method": "m"}, "token": _secret("deeper")},
        "no method": {"jsonrpc": "2.0", "token": _secret("no method")},
    }
    with Origin() as origin, Proxied(stage, origin) as proxied:
        for body in bodies.values():
            content = json.dumps({"a": MARKER, **body}).encode()
            proxied.ask("POST", "/token", content, {"Content-Type": "application/json"})
        return _masked(proxied.stop(), bodies, "3 bodies")


@TABLE
def proxy_fields(stage: Stage) -> str:
    """Proxy-Authorization and Proxy-Connection never reach the upstream."""
    with Origin() as origin, Proxied(stage, origin) as proxied:
        fields = {"Proxy-Authorization": "Basic x", "pRoxy-Connection": "keep-alive", "X-Marker": MARKER}
        proxied.ask("GET", "/x", fields=fields)
        heard = origin.heard[-1].lower()
    hold(MARKER.encode() in heard, "the upstream heard nothing")
    got = [name for name in fields if name.lower().encode() in heard and name != "X-Marker"]
    hold(not got, f"the upstream gets {', '.join(got)}")
    return "the upstream has neither"


def _recordings(stage: Stage, count: int) -> list[Path]:
    """The traces in the state folder when the recorders of ``count`` sessions have ended."""
    folder = stage.state / "mcpproxy"
    for _ in stage.looks(f"{count} recordings"):
        traces = list(folder.glob("*.jsonl"))
        if len(traces) == count and not list(folder.glob("*.journal")):
            return traces
    raise AssertionError


@TABLE
def arguments(stage: Stage) -> str:
    """Secret arguments of a wrapped server: masked in trace, list and stderr; the server gets them."""
    key = "ghp_" + "a1" * 18
    given = (
        "--token", _secret("token"), f"--api-key={_secret('api-key')}", key,
        "-H", f"Authorization: Bearer {_secret('header')}",
    )  # fmt: skip
    script = "import sys; open('argv', 'w').write(' '.join(sys.argv[1:]))"
    told = stage.run("run", "--", sys.executable, "-c", script, *given, doing="run")
    hold((stage.folder / "argv").read_text() == " ".join(given), "the server has other arguments")
    recorded = "".join(path.read_text() for path in _recordings(stage, 1))
    listed = stage.run("list")
    places = {"the trace": recorded, "list": listed.out + listed.err, "stderr": told.err}
    hold("--token" in recorded, "no command is recorded")
    left = [
        f"{value} in {place}"
        for place, text in places.items()
        for value in (_secret("token"), _secret("api-key"), _secret("header"), key)
        if value in text
    ]
    hold(not left, ", ".join(left)[:120])
    return "masked everywhere; the server has them"


@TABLE
def text_of_scripts(stage: Stage) -> str:
    """The text of a script is neither label nor file name."""
    scripts = {
        "sh": ("sh", "-c", "true hush-script"),
        "sh -ec": ("sh", "-ec", "hush-script=1 || true"),
        "python -c": ("python3", "-c", "hush=__name__#hush-script"),
        "env sh -c": ("env", "sh", "-c", "true hush-script"),
    }
    for command in scripts.values():
        stage.run("run", "--quiet", "--", *command, doing="run")
    traces = _recordings(stage, len(scripts))
    labels = [json.loads(path.read_text().splitlines()[0])["label"] for path in traces]
    told = [name for name in [*(path.name for path in traces), *labels] if "hush" in name]
    hold(not told, f"a label or file name is {told[0][:60]!r}" if told else "")
    return f"labels: {', '.join(sorted(set(labels)))}"
