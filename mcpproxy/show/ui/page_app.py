"""The web application of the page: its files, and the routes below ``/api`` from which it gets its data.

An answer with data is JSON, an event stream, or the bytes of a frame. A request that cannot be answered gets
an error status and one sentence.
"""

import json
import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import anyio
import anyio.to_thread
import orjson
from sse_starlette import EventSourceResponse
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from mcpproxy.base.visible import visible
from mcpproxy.errors import McpProxyError
from mcpproxy.judge.checks.opt_in.pins import Pins
from mcpproxy.judge.session.filter import parse_filter
from mcpproxy.protocol.jsonrpc import JSON, Flaw, JSONObject, read
from mcpproxy.read.view.calls import Progress
from mcpproxy.read.view.diagrams.sequence import sequence
from mcpproxy.read.view.recording_entry import RecordingEntry, may_have_its_model
from mcpproxy.read.view.rows.sort_rows import check_order
from mcpproxy.read.view.view import View
from mcpproxy.show.ui import copies, json_rows, plots
from mcpproxy.show.ui.found_rows import FolderSearch
from mcpproxy.show.ui.held_sessions import OFF, POLL_S, Breakpoints, NotReleasedError
from mcpproxy.show.ui.library import Library, NoRecordingError, id_of
from mcpproxy.show.ui.request_body import BodyTooLargeError, read_body
from mcpproxy.show.ui.send import CallSender, is_own, recorded_call, refusal
from mcpproxy.show.ui.static_files import document, static_file, style

if TYPE_CHECKING:
    from mcpproxy.read.prompt.seen_call import SeenCalls

_T = TypeVar("_T")

_MAX_BARS: Final = 1500
"""How many bars the timeline of a recording has at most."""
_MAX_POINTS: Final = 20_000
"""How many calls the plot of latencies has at most."""
_MOST_BODY_BYTES: Final = 64 << 20
"""The longest body of a request: an edited message may be as long as a line of stdio."""
_LARGEST: Final = 1 << 53
"""The largest number in a query: more rows than a recording has."""
_LATEST_NS: Final = (1 << 63) - 1
"""The latest time in a query: no recording has a later one."""
_LIVE_S: Final = 0.25
"""How often a running recording is read again."""
_FOLDER_S: Final = 1.0
"""How often the folder is read again."""
_SEARCH_STEP_S: Final = 0.2
"""How long a search runs before it reports its progress."""
_PING_S: Final = 15
"""How often a stream without events sends a comment, which keeps the connection open."""


class PageApp:
    """Answers the requests of the page about the recordings of ``library``.

    ``sender`` sends calls again. It is ``None`` if the user has not allowed that; then no message that a
    breakpoint holds can be released either. ``pins`` are the tools that the user has approved, if any.
    """

    def __init__(self, library: Library, sender: CallSender | None = None, pins: Pins | None = None) -> None:
        self._library: Final = library
        self._sender: Final = sender
        self._pins: Final = pins
        self._search: Final = FolderSearch()
        self._seen: SeenCalls | None = None
        self._breakpoints: Final = Breakpoints(library, may_release=sender is not None)

    def app(self) -> Starlette:
        """Return the application."""
        base = "/api/recordings/{id}"
        return Starlette(
            routes=[
                Route("/", document),
                Route("/static/all.css", style),
                Route("/static/{path:path}", static_file),
                Route("/api/live", self.folder_live),
                Route("/api/recordings", self.recordings),
                Route("/api/search", self.search_all),
                Route("/api/compare", self.compare),
                Route(base, self.summary),
                Route(f"{base}/calls", self.calls),
                Route(f"{base}/position", self.position),
                Route(f"{base}/calls/{{call:int}}", self.detail),
                Route(f"{base}/calls/{{call:int}}/copy", self.copy),
                Route(f"{base}/calls/{{call:int}}/prompt", self.model_saw),
                Route(f"{base}/frames/{{seq:int}}", self.frame),
                Route(f"{base}/live", self.live),
                Route(f"{base}/search", self.search),
                Route(f"{base}/findings", self.findings),
                Route(f"{base}/tools", self.tools),
                Route(f"{base}/stats", self.stats),
                Route(f"{base}/latencies", self.latencies),
                Route(f"{base}/spans", self.spans),
                Route(f"{base}/sequence", self.sequence),
                Route(f"{base}/prompt", self.prompt),
                Route(f"{base}/works-in", self.works_in),
                Route(f"{base}/send", self.send, methods=["POST"]),
                Route(f"{base}/held", self.held_calls),
                Route(f"{base}/held", self.release, methods=["POST"]),
                Route(f"{base}/held/{{number:int}}", self.held_text),
            ],
            lifespan=self._lifespan,
            exception_handlers={
                NoRecordingError: _answer_with(404),
                NotReleasedError: _answer_with(409),
                BodyTooLargeError: _answer_with(413),
                LookupError: _answer_with(404),
                McpProxyError: _answer_with(400),
                ValueError: _answer_with(400),
            },
        )

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncGenerator[None]:
        del app
        yield
        self._library.close()

    # The folder

    async def recordings(self, request: Request) -> Response:
        """Return the recordings, newest first, the runs (those of one client process), and the folder.

        ``folder`` is empty for the folder of all recordings, the default of mcpproxy. If the folder has no
        recordings, ``below`` names the folders below it that have some. ``version`` is that of
        ``folder_live``.
        """
        del request
        entries = await self._library.entries()
        runs = [(run, map(id_of, (entry.path for entry in run.entries))) for run in self._library.runs()]
        return _json(
            {
                "recordings": [json_rows.recording(id, entry) for id, entry in entries.items()],
                "runs": [json_rows.run(run, ids) for run, ids in runs],
                "folder": self._library.folder,
                "below": json_rows.below(*await self._library.below()),
                "version": _version(entries),
            }
        )

    async def folder_live(self, request: Request) -> Response:
        """Send the version of the list at first, and whenever the list changes.

        It changes when a recording begins, ends or is deleted, or when its peers or counted calls change. The
        page requests the list apart from this stream; by the version it can tell whether its list is older
        than the first event.

        Another event has the held messages. One stream has both, because a browser opens few connections to a
        server at a time.
        """
        del request

        async def events() -> AsyncIterator[dict[str, str]]:
            before = ""
            version, read_at_s = -1, 0.0
            while True:
                if time.monotonic() - read_at_s >= _FOLDER_S:
                    now = _version(await self._library.entries())
                    if now != before:
                        yield {"event": "recordings", "data": json.dumps({"version": now})}
                    before, read_at_s = now, time.monotonic()
                held_version, held = await self._breakpoints.held()
                if held_version != version:
                    yield {"event": "held", "data": json.dumps(held)}
                    version = held_version
                await anyio.sleep(POLL_S)

        return EventSourceResponse(events(), ping=_PING_S)

    async def search_all(self, request: Request) -> Response:
        """Return rows of all recordings that pass a filter, found in bounded time, and where to continue."""
        query = request.query_params
        wanted = parse_filter(query.get("filter", ""))
        begin, last = query.get("recording", ""), _number(query.get("after"), 0)
        return _json(await self._search.rows(request, await self._library.entries(), wanted, begin, last))

    async def compare(self, request: Request) -> Response:
        """Compare what the server did in two recordings."""
        before = await self._library.entry(request.query_params.get("before", ""))
        after = await self._library.entry(request.query_params.get("after", ""))
        from mcpproxy.show.ui.comparison import compared

        return _json(await anyio.to_thread.run_sync(compared, before.path, after.path))

    # One recording

    async def summary(self, request: Request) -> Response:
        """Return the facts of a recording, its sessions, and notes about missing records."""
        id = request.path_params["id"]
        entry = await self._library.entry(id)

        def answer(view: View) -> JSONObject:
            reason = refusal(view.header) if self._sender else None
            sending: JSONObject = {
                "may_send": reason == "",
                "not_sent_because": reason or "",
                "is_own": is_own(view.path),
            }
            return {**json_rows.summary(view, json_rows.recording(id, entry)), **sending}

        return _json(await self._with_view(request, answer))

    async def calls(self, request: Request) -> Response:
        """Return a window of the rows that pass a filter."""
        query = request.query_params
        start, limit = _number(query.get("start"), 0), min(_number(query.get("limit"), 200), json_rows.WINDOW)
        text, order = query.get("filter"), query.get("order", "")
        rows = await self._with_view(request, lambda view: view.calls(text, start, limit, order))
        return _json({"start": start, "rows": [json_rows.call(row) for row in rows]})

    async def position(self, request: Request) -> Response:
        """Return how many rows pass a filter, and the position of a call among them."""
        query = request.query_params
        text, order, number = query.get("filter"), query.get("order", ""), _number(query.get("call"), 0)

        return _json(await self._with_view(request, lambda view: _position(view, text, order, number)))

    async def detail(self, request: Request) -> Response:
        """Return a call with everything that belongs to it."""
        number = request.path_params["call"]

        def answer(view: View) -> JSONObject:
            call_detail = view.parts(number, json_rows.MOST_RECORDS)
            call = call_detail.call
            tool = view.tools.definition(call.target) if call.method == "tools/call" else None
            return {**json_rows.detail(call_detail), "tool": tool}

        return _json(await self._with_view(request, answer))

    async def copy(self, request: Request) -> Response:
        """Return a call in a form to paste: JSON, curl, or a command of mcpproxy."""
        number, form = request.path_params["call"], request.query_params.get("form", "json")
        return _json({"text": await self._with_view(request, lambda view: copies.text(view, number, form))})

    async def model_saw(self, request: Request) -> Response:
        """Return what the model saw of a call, as ``words``, and where, as ``recording``.

        That is the id of the recording of the traffic with the model. Both are empty if it is not known.
        """
        entry = await self._library.entry(request.path_params["id"])
        entries = [*reversed((await self._library.entries()).values())]
        seen = None
        if may_have_its_model(entry, entries):
            from mcpproxy.read.prompt.seen_call import SeenCalls

            self._seen = self._seen or SeenCalls()
            number = request.path_params["call"]
            seen = await anyio.to_thread.run_sync(self._seen.of, entry, entries, number)
        if seen is None:
            return _json({"words": [], "recording": ""})
        return _json({"words": [*seen.words], "recording": id_of(seen.model)})

    async def frame(self, request: Request) -> Response:
        """Return a frame: as text in UTF-8 or, if the query has ``download``, the bytes as they passed."""
        seq: int = request.path_params["seq"]
        raw = await self._with_view(request, lambda view: view.raw(seq))
        if "download" in request.query_params:
            headers = {"Content-Disposition": f'attachment; filename="frame-{seq}.txt"'}
            return Response(raw, headers=headers, media_type="application/octet-stream")
        return PlainTextResponse(raw.decode("utf-8", "backslashreplace"))

    async def findings(self, request: Request) -> Response:
        """Return the findings, grouped by rule."""
        return _json(await self._with_view(request, json_rows.findings))

    async def tools(self, request: Request) -> Response:
        """Return the tools that the servers listed: their use, their cost, and how they differ from pins."""
        return _json(await self._with_view(request, partial(json_rows.tools, pins=self._pins)))

    async def prompt(self, request: Request) -> Response:
        """Return what a model saw of the servers in the run of a recording."""
        entry = await self._library.entry(request.path_params["id"])
        entries = [*reversed((await self._library.entries()).values())]
        from mcpproxy.show.ui.prompt_seen import prompt_seen

        return _json(await anyio.to_thread.run_sync(prompt_seen, entry, entries))

    async def works_in(self, request: Request) -> Response:
        """Return in which hosts the server of a recording works."""
        entry = await self._library.entry(request.path_params["id"])
        from mcpproxy.show.ui.works_in import works_in

        return _json(await anyio.to_thread.run_sync(works_in, entry.path))

    async def stats(self, request: Request) -> Response:
        """Return counts, latencies and sizes for each method and tool."""
        return _json(await self._with_view(request, json_rows.stats))

    async def latencies(self, request: Request) -> Response:
        """Return the latencies of calls; if there are too many, the slowest of each group."""
        text = request.query_params.get("filter")

        return _json(await self._with_view(request, lambda view: plots.latencies(view, text, _MAX_POINTS)))

    async def spans(self, request: Request) -> Response:
        """Return the rows that were open in a range of time; bars shorter than ``narrow`` are merged."""
        query = request.query_params
        begin_ns, end_ns = _time_ns(query.get("from", "0")), _time_ns(query.get("to", "inf"))
        narrow_ns, text = _time_ns(query.get("narrow", "0")), query.get("filter")

        work = partial(
            plots.spans,
            begin_ns=begin_ns,
            end_ns=end_ns,
            narrow_ns=narrow_ns,
            filter=text,
            limit=_MAX_BARS,
        )
        return _json(await self._with_view(request, work))

    async def sequence(self, request: Request) -> Response:
        """Return the first calls that began in a range of time as a sequence diagram."""
        query = request.query_params
        begin_ns, end_ns = _time_ns(query.get("from", "0")), _time_ns(query.get("to", "inf"))
        text, server = query.get("filter"), _number(query.get("server"), 1)

        def answer(view: View) -> JSONObject:
            return json_rows.sequence(sequence(view, text, begin_ns, end_ns, server=server))

        return _json(await self._with_view(request, answer))

    # Streams

    async def live(self, request: Request) -> Response:
        """Send an event when rows of a recording are new or have changed, and when it has ended."""
        id: str = request.path_params["id"]
        # Before the first event the page has no version; -1 makes that event say that every row has changed.
        last = _number(request.headers.get("last-event-id"), -1)
        await self._library.entry(id)

        async def events() -> AsyncIterator[dict[str, str]]:
            version = last
            async with self._library.opened(id) as recording:
                while True:
                    change, rows, running = await recording.changes_since(version)
                    if change.version != version or not running:
                        data = {"rows": rows, "first": change.first, "running": running}
                        yield {"event": "rows", "id": str(change.version), "data": json.dumps(data)}
                        version = change.version
                    if not running:
                        return
                    await anyio.sleep(_LIVE_S)

        return EventSourceResponse(events(), ping=_PING_S)

    async def search(self, request: Request) -> Response:
        """Apply a filter and an order step by step. Send the progress, and at the end the position of a call.

        The page cancels the search by closing the stream.
        """
        id: str = request.path_params["id"]
        query = request.query_params
        text, number = query.get("filter", ""), _number(query.get("call"), 0)
        parse_filter(text)
        order = check_order(query.get("order", ""))

        async def events() -> AsyncIterator[dict[str, str]]:
            async with self._library.opened(id) as recording, recording.searching():
                steps = await recording.use(lambda view: view.find(text, order))

                def search_step(_: View) -> Progress | None:
                    """Search for a while, and return the progress; ``None`` at the end of the search."""
                    until = time.monotonic() + _SEARCH_STEP_S
                    return next((progress for progress in steps if time.monotonic() >= until), None)

                while progress := await recording.use(search_step):
                    data = {
                        "done": progress.done_bytes,
                        "total": progress.total_bytes,
                        "found": progress.found,
                    }
                    yield {"event": "progress", "data": json.dumps(data)}
                position = await recording.use(lambda view: _position(view, text, order, number))
            yield {"event": "end", "data": json.dumps(position)}

        return EventSourceResponse(events(), ping=_PING_S)

    # Sending

    async def send(self, request: Request) -> Response:
        """Send a call again, edited, in a session of its own; return its answer and the new recording."""
        if self._sender is None:
            return PlainTextResponse("Sending is off. Start the page with --allow-send.\n", 403)
        body = read(await read_body(request, _MOST_BODY_BYTES))  # ``read`` keeps numbers exact
        if not isinstance(body, dict) or not isinstance(number := body.get("call"), int):
            return PlainTextResponse("call: a number is expected\n", 400)
        recorded = await self._with_view(request, lambda view: recorded_call(view, number))
        answer = await self._sender.send(
            recorded, body.get("params"), confirmed=body.get("confirmed") is True
        )
        id = self._library.add(answer.path)
        return _json({"recording": id, "call": answer.call, "text": answer.text, "took": answer.took})

    # Breakpoints

    async def held_calls(self, request: Request) -> Response:
        """Return the calls of the messages that a session holds, and how long each peer probably waits."""
        return _json(
            await self._with_view(request, self._breakpoints.context_reader(request.path_params["id"]))
        )

    async def held_text(self, request: Request) -> Response:
        """Return a held message as text."""
        id, number = request.path_params["id"], request.path_params["number"]
        # In ``json.dumps`` bytes that are not UTF-8 are escapes, which ``orjson`` does not write.
        return Response(json.dumps(await self._breakpoints.text(id, number)), media_type="application/json")

    async def release(self, request: Request) -> Response:
        """Resume, drop, edit or answer held messages."""
        if not self._breakpoints.may_release:
            return PlainTextResponse(f"{OFF}\n", 403)
        body = read(await read_body(request, _MOST_BODY_BYTES))
        if isinstance(body, Flaw):
            return PlainTextResponse(f"{body.value}\n", 400)
        return _json(await self._breakpoints.release(request.path_params["id"], body))

    async def _with_view(self, request: Request, work: Callable[[View], _T]) -> _T:
        """Return what ``work`` returns for the view of the recording that the address names."""
        async with self._library.opened(request.path_params["id"]) as recording:
            return await recording.use(work)


def _json(value: JSON) -> Response:
    return Response(orjson.dumps(value), media_type="application/json")


def _position(view: View, filter: str | None, order: str, number: int) -> JSONObject:
    """Return how many rows pass a filter, and the position of the call ``number`` among them.

    The position is ``None`` if the call does not pass, or if ``number`` is 0.
    """
    total = view.count(filter)
    if not number:
        return {"total": total, "position": None}
    position = view.position(number, filter, order)
    at = view.calls(filter, position, 1, order)
    return {"total": total, "position": position if at and at[0].number == number else None}


def _number(text: str | None, default: int) -> int:
    """Return ``text``, a value of the query, as a number of 0 or more; ``default`` if it is not one.

    A text of as many digits as ``_LARGEST`` has, or more, is ``_LARGEST``.
    """
    if text is None or not (text.isascii() and text.isdigit()):
        return default
    return int(text) if len(text) < len(str(_LARGEST)) else _LARGEST


def _time_ns(text: str) -> int:
    """Return ``text``, a number of milliseconds in the query, in nanoseconds, at most ``_LATEST_NS``.

    Raises:
        ValueError: it is not a number.
    """
    value = float(text)
    if math.isnan(value):
        raise ValueError("a time is a number of milliseconds")
    return int(max(-_LATEST_NS, min(value * 1e6, _LATEST_NS)))


def _version(entries: Mapping[str, RecordingEntry]) -> str:
    """Return a text that changes with the list, and with the state, peers or counted calls of a recording."""
    facts = [(id, entry.state, entry.client, entry.server, entry.calls) for id, entry in entries.items()]
    return format(hash(tuple(facts)), "x")


def _answer_with(status: int) -> Callable[[Request, Exception], Response]:
    """Return a handler that answers with the text of an exception."""

    def answer(request: Request, fault: Exception) -> Response:
        del request
        return PlainTextResponse(f"{visible(str(fault))}\n", status)

    return answer
