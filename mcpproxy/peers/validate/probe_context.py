"""The context of a probe (one test of a server): the shared session, the server's lists, and new sessions."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, cast

from mcpproxy.judge.session.frame import CLIENT, SERVER
from mcpproxy.peers.validate.answers import Answer
from mcpproxy.peers.validate.client import Client
from mcpproxy.peers.validate.connection import START_S, TIMEOUT_S
from mcpproxy.peers.validate.errors import (
    GoneError,
    HttpStatusError,
    MalformedAnswerError,
    Skipped,
    TimedOutError,
    ValidateError,
)
from mcpproxy.peers.validate.outcome import STATUS_OF, Conclusion
from mcpproxy.peers.validate.recordings import Recordings, Target
from mcpproxy.peers.validate.session_recording import SessionRecording
from mcpproxy.peers.validate.transports.stdio_wire import GRACE_S, SHORT_GRACE_S, StdioWire
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.meta_keys import SERVER_INFO_KEY
from mcpproxy.protocol.revisions import STATELESS

if TYPE_CHECKING:
    from mcpproxy.peers.validate.transports.http_endpoint import HttpEndpoint
    from mcpproxy.peers.validate.transports.http_wire import HttpWire


@dataclass(frozen=True, slots=True)
class ValidateOptions:
    """The limits of a run.

    ``timeout_s`` is the time limit for one response, ``start_s`` for the first response of a new process, and
    ``limit_s`` for the whole run. ``calls`` are tools and the arguments with which to call them. With
    ``calls_all`` every tool is called with generated arguments.
    """

    timeout_s: float = TIMEOUT_S
    start_s: float = START_S
    limit_s: float = 300.0
    calls: tuple[tuple[str, JSONObject], ...] = ()
    calls_all: bool = False


@dataclass(slots=True)
class Inventory:
    """The entries of all lists of the server. The probes that request a list fill them in.

    ``failures`` maps a list method that failed, or ``ping``, to what went wrong.
    """

    tools: list[JSONObject] = field(default_factory=list[JSONObject])
    resources: list[JSONObject] = field(default_factory=list[JSONObject])
    templates: list[JSONObject] = field(default_factory=list[JSONObject])
    prompts: list[JSONObject] = field(default_factory=list[JSONObject])
    failures: dict[str, str] = field(default_factory=dict[str, str])


class ProbeContext:
    """The context of the probes of one server in one revision.

    Most probes use the shared session, whose client is ``client``; others open sessions of their own.
    ``session_recordings`` are the recordings of all sessions so far. ``revision`` is the revision in use;
    with ``is_exact`` no other revision is accepted. ``open_failure`` says why no session can be opened; it is
    empty until a probe has found that out.
    """

    def __init__(
        self,
        target: Target,
        options: ValidateOptions,
        recordings: Recordings,
        revision: str,
        *,
        is_exact: bool = False,
    ) -> None:
        self.target: Final = target
        self.options: Final = options
        self.rules: Final = recordings.rules
        self.revision = revision
        self.is_exact: Final = is_exact
        self.open_failure = ""
        self.is_revision_refused = False
        """Whether the server refused the revision, sent nothing, or offered another despite ``is_exact``."""
        self.is_optional = False
        """Whether the server is allowed not to support the revision."""
        self.was_seen = False
        """Whether an earlier session received anything from the server but pages of HTTP error statuses."""
        self.is_dual: bool | None = None
        """Whether the server supports both eras, with and without a handshake; ``None``: unknown."""
        self.outlives_stdin = False
        """Whether a process kept running after its stdin was closed; later ones get less time to exit."""
        self.never_answers = False
        """Whether a process answered no request of a whole session, whatever else it sent.

        Later ones get no extra time to start.
        """
        self.ping_fails = False
        """Whether the check of ``ping`` got no answer. Then an unanswered ping says nothing about the
        messages before it."""
        self.stops_at_malformed_json = False
        """Whether the server stopped answering after malformed JSON, which is then not sent again."""
        self.runs_alone = False
        """Whether a process of the server works only while no other one runs; they may share a file."""
        self._silent_beside: SessionRecording | None = None
        """The recording of a process that sent nothing while the shared one ran."""
        self.losses = 0
        """How many shared sessions over HTTP were lost, other than by a mistake of a client."""
        self.server: JSONObject = {}
        """The result of ``initialize`` or ``server/discover``."""
        self.inventory: Final = Inventory()
        self.slow_tools: Final[set[str]] = set()
        """The tools that gave no answer in time; they are not called again."""
        self.session_recordings: Final[list[SessionRecording]] = []
        self.probe_recordings: Final[list[SessionRecording]] = []
        """The recordings that the current probe has written to."""
        self._recordings: Final = recordings
        self._client: Client | None = None
        self._http: HttpEndpoint | None = None

    @property
    def client(self) -> Client:
        """The client of the shared session.

        Raises:
            Skipped: there is none: an earlier check ended it, or it could not be started.
        """
        if self._client is None:
            raise Skipped("there is no session")
        return self._client

    @property
    def exhausted(self) -> str:
        """Why no more requests are sent to the server, as a clause about it; empty while they are."""
        return self._http.exhausted if self._http is not None else ""

    @property
    def has_session(self) -> bool:
        """Whether the shared session was started and its server is not gone."""
        return self._client is not None and not self._client.gone

    @property
    def session_path(self) -> str:
        """The path of the recording of the shared session; empty without a session."""
        return self._client.wire.recording.path if self._client is not None else ""

    def spec_url(self, page: str) -> str:
        """Return the URL of a page of the specification in the current revision."""
        return f"https://modelcontextprotocol.io/specification/{self.revision}/{page}"

    @property
    def is_stateless(self) -> bool:
        """Whether the revision in use has no handshake."""
        return self.revision in STATELESS

    @property
    def http(self) -> "HttpEndpoint":
        """The HTTP endpoint of the server, with all connections to it.

        Raises:
            Skipped: the server is tested over stdio.
            McpProxyError: its recording cannot be written, or its URL is malformed.
        """
        if not self.target.url:
            raise Skipped("only over HTTP")
        from mcpproxy.peers.validate.transports.http_endpoint import HttpEndpoint

        if self._http is None:
            recording = self._new_recording("session")
            self._http = HttpEndpoint(recording, self.target.url, self.target.headers, self.target.upstream)
        return self._http

    @property
    def http_wire(self) -> "HttpWire":
        """The transport of the shared session over HTTP.

        Raises:
            Skipped: the server is tested over stdio, or there is no session.
        """
        wire = self.client.wire
        if wire.transport != "http":
            raise Skipped("only over HTTP")
        return cast("HttpWire", wire)

    @property
    def stdio_wire(self) -> StdioWire:
        """The transport of the shared session on stdio.

        Raises:
            Skipped: the server is tested over HTTP, or there is no session.
        """
        wire = self.client.wire
        if not isinstance(wire, StdioWire):
            raise Skipped("only on stdio")
        return wire

    @property
    def server_info(self) -> JSONObject:
        """The name and version of the server (``serverInfo``); empty if it sent none."""
        meta = self.server.get("_meta")
        info = self.server.get("serverInfo")
        if not isinstance(info, dict) and isinstance(meta, dict):
            info = meta.get(SERVER_INFO_KEY)
        return info if isinstance(info, dict) else {}

    def declares(self, path: str) -> bool:
        """Whether the server declared a capability, such as ``resources.subscribe``."""
        value = member(self.server, "capabilities", *path.split("."))
        return value is not None and value is not False

    async def open(self, name: str = "session") -> Client:
        """Close the shared session, and open a new one; ``name`` is as for ``new_client``.

        Raises:
            ValidateError: the session cannot be opened.
            McpProxyError: the recording cannot be written.
        """
        client = await self.start(name)
        await client.connect()
        return client

    async def started(self) -> Client:
        """Return the client of the shared session, which is started if there is none.

        Raises:
            As ``start``.
        """
        return self._client or await self.start()

    async def start(self, name: str = "session") -> Client:
        """Close the shared session, and start a new one without sending anything yet.

        ``name`` is as for ``new_client``.

        Raises:
            CouldNotStartError: the server cannot be started.
            ValidateError: a server of HTTP+SSE opens no stream.
            McpProxyError: the recording cannot be written.
        """
        await self.close_session()
        client = self._client = self.new_client(name)
        await client.open()
        return client

    def new_client(self, name: str, revision: str = "") -> Client:
        """Return a client whose session is not open yet. On stdio it gets a new recording called ``name``.

        ``revision`` is by default the one in use.

        Raises:
            McpProxyError: the recording cannot be written.
        """
        target = self.target
        if target.url:
            from mcpproxy.peers.validate.transports.http_wire import HttpWire

            self._note_recording(self.http.recording)
            return Client(HttpWire(self.http), revision or self.revision, self.options.timeout_s)
        recording = self._new_recording(name)
        grace_s = SHORT_GRACE_S if self.outlives_stdin else GRACE_S
        wire = StdioWire(recording, target.command, target.env, grace_s, target.cwd)
        start_s = 0 if self.never_answers else self.options.start_s
        return Client(wire, revision or self.revision, self.options.timeout_s, start_s)

    @asynccontextmanager
    async def new_session(
        self, name: str, *, connected: bool = False, revision: str = ""
    ) -> AsyncGenerator[Client]:
        """Yield a client with a session of its own; on stdio, with a new process.

        On stdio, ``name`` is that of its recording. ``revision`` is by default the one in use. With
        ``connected`` the session is opened first (see ``Client.connect``). It is closed at the end. If the
        server ``runs_alone``, the shared session is closed first.

        Raises:
            CouldNotStartError: the server cannot be started.
            ValidateError: the handshake fails, or a server of HTTP+SSE opens no stream.
            McpProxyError: the recording cannot be written.
        """
        if self.runs_alone:
            await self.close_session()
        client = self.new_client(name, revision)
        await client.open()
        try:
            if connected:
                await client.connect()
            yield client
        except ValidateError:
            recording = client.wire.recording
            is_beside = not self.target.url and self.has_session and self.client.has_answered
            if is_beside and not recording.tally.frames[SERVER]:
                self._silent_beside = recording
            raise
        finally:
            await self._end_client(client)

    def may_run_alone(self) -> bool:
        """Whether the current check failed in a process that said nothing while the shared one ran.

        If so, the server counts as one that ``runs_alone``, and the recording of that process does not count.
        """
        recording, self._silent_beside = self._silent_beside, None
        if recording is None or self.runs_alone:
            return False
        self.runs_alone = True
        self.session_recordings.remove(recording)
        self.probe_recordings.remove(recording)
        return True

    async def call(self, name: str, arguments: JSONObject, **members: JSON) -> Answer:
        """Call a tool in the shared session; ``members`` are added to the params.

        Raises:
            Skipped: there is no session.
            ValidateError: there is no answer. After a timeout the tool is in ``slow_tools``.
        """
        try:
            return await self.client.request("tools/call", {"name": name, "arguments": arguments, **members})
        except TimedOutError:
            self.slow_tools.add(name)
            raise

    async def why_lost(self) -> str:
        """Return why the shared session over HTTP is lost, as a clause; empty if it is not lost.

        It is lost if a ping and the list of every declared feature are refused with an HTTP status, cut
        short, or answered with something that is not a message. On stdio a session is lost with its process,
        which the client notices by itself.
        """
        why = ""
        if not (self.target.url and self.has_session and self.client.is_initialized):
            return why
        lists = [f"{name}/list" for name in ("tools", "resources", "prompts") if self.declares(name)]
        for method in (self.client.ping_method, *lists):
            try:
                await self.client.request(method)
            except (HttpStatusError, GoneError, MalformedAnswerError) as fault:
                why = why or str(fault)
            except ValidateError:
                return ""  # an answer under a wrong id, or a timeout, which the run counts itself
            else:
                return ""
        return why

    async def close_session(self) -> None:
        """Close the shared session."""
        client, self._client = self._client, None
        if client is not None:
            self._note_recording(client.wire.recording)
            await self._end_client(client)

    async def drop_session(self) -> None:
        """Close the shared session; on stdio kill its server first, because it may hang."""
        client = self._client
        if client is not None and isinstance(client.wire, StdioWire):
            self._note_answers(client)
            await client.wire.kill()
        await self.close_session()

    async def close(self) -> None:
        """Close all sessions and complete all recordings."""
        await self.close_session()
        if self._http is not None:
            await self._http.close()

    def mark_provoked(self) -> None:
        """Note that the sessions of the current probe contain messages that a client must not send."""
        shared = [self._client.wire.recording] if self._client is not None else []
        for recording in (*self.probe_recordings, *shared):
            recording.was_provoked = True

    def violation(self, requirement: str, message: str, frames: Iterable[int] = ()) -> Conclusion:
        """Return the conclusion for a violated requirement: ``violation("RPC-010/R-012", "...")``.

        The severity follows from the revision. If the revision does not have the requirement, the check
        passes.
        """
        row = self.rules.catalogue.requirements[requirement]
        severity = row.severity((self.revision,))
        evidence = tuple(dict.fromkeys(frames))
        if severity is None:
            return Conclusion("passed", f"{message}; {self.revision} does not forbid it", evidence)
        source = row.source((self.revision,))
        return Conclusion(STATUS_OF[severity], message, evidence, row.rule, source, row.id)

    def limits(self) -> list[str]:
        """Return the texts of all refusals so far that say there were too many requests."""
        return [text for recording in self.session_recordings for text in recording.limited.values()]

    async def _end_client(self, client: Client) -> None:
        self._note_answers(client)
        await client.close()
        if isinstance(client.wire, StdioWire):
            self.outlives_stdin = self.outlives_stdin or client.wire.outlived_stdin

    def _note_answers(self, client: Client) -> None:
        """Set ``never_answers`` if the server still runs, and has answered nothing that this client sent."""
        is_unanswered = not (client.has_answered or client.gone)
        if is_unanswered and client.wire.recording.tally.frames[CLIENT]:
            self.never_answers = True

    def _new_recording(self, name: str) -> SessionRecording:
        recording = self._recordings.begin(name, self.target)
        self.session_recordings.append(recording)
        self._note_recording(recording)
        return recording

    def _note_recording(self, recording: SessionRecording) -> None:
        if recording not in self.probe_recordings:
            self.probe_recordings.append(recording)
