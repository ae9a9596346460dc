"""The server of a trial, over stdio or HTTP: send steps to it, and notice when it hangs or ends."""

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from mcpproxy.base.telling_line import LastLines
from mcpproxy.judge.session.frame import Stderr
from mcpproxy.peers.fuzz.material import Material
from mcpproxy.peers.fuzz.patience import MOST_TIMES, Patience
from mcpproxy.peers.fuzz.steps import FuzzStep
from mcpproxy.peers.fuzz.symptoms import GONE, Symptom, end_symptom, hang_symptom, subject_of
from mcpproxy.peers.validate.answers import Pending
from mcpproxy.peers.validate.connection import RpcConnection
from mcpproxy.peers.validate.errors import GoneError, HttpStatusError, TimedOutError, ValidateError
from mcpproxy.peers.validate.recordings import Target
from mcpproxy.peers.validate.session_recording import SessionRecording
from mcpproxy.peers.validate.transports.stdio_wire import StdioWire
from mcpproxy.protocol.jsonrpc import ErrorResponse, Response
from mcpproxy.protocol.mirrors import read_mirrors
from mcpproxy.protocol.request_headers import negotiated_version
from mcpproxy.record.trace.records import Recorded

if TYPE_CHECKING:  # imports the HTTP library, which stdio does not need
    from mcpproxy.peers.validate.transports.http_wire import HttpWire

_BETWEEN_PIECES_S: Final = 0.005
"""How long to wait between the pieces of a message, so that the server reads them one by one."""
_READING_S: Final = 10.0
"""The least time that a server has to read a message."""


class Peer(Protocol):
    """The server of one trial: a process or an endpoint."""

    recording: SessionRecording
    refusal: ValidateError | None
    """Why the last step got no answer of an MCP server; ``None`` if it got one or is silent, and on stdio."""

    async def open(self) -> None:
        """Start the server.

        Raises:
            CouldNotStartError: the command cannot be run.
        """
        ...

    async def send(self, step: FuzzStep, index: int, answer_s: float) -> Symptom | None:
        """Send a step, and wait at most ``answer_s`` for its answers.

        Return the fault that shows by then, or ``None``. ``index`` is the index of the step.
        """
        ...

    async def ping(self, step: FuzzStep, index: int, timeout_s: float) -> Symptom | None:
        """Check by a ping that the server answers within ``timeout_s``; return the fault if not, else
        ``None``.

        ``step`` is the last step that was sent, and ``index`` its index.
        """
        ...

    @property
    def is_gone(self) -> bool:
        """Whether the server has ended."""
        ...

    @property
    def is_silent(self) -> bool:
        """Whether the last step was not answered in time."""
        ...

    def client(self, session: int) -> RpcConnection:
        """Return the client of the session with this number (``FuzzStep.session``)."""
        ...

    def clients(self) -> list[RpcConnection]:
        """Return the clients of all sessions."""
        ...

    async def close(self, *, is_orderly: bool) -> None:
        """Close the connection.

        If ``is_orderly``, end the session first; otherwise, on stdio, kill the process.
        """
        ...


class StdioPeer:
    """A server process. Everything that it sends is recorded."""

    def __init__(self, target: Target, recording: SessionRecording, material: Material) -> None:
        self.recording = recording
        self.refusal: ValidateError | None = None
        self.is_silent = False
        self._wire: Final = StdioWire(recording, target.command, target.env, cwd=target.cwd)
        self._client: Final = RpcConnection(self._wire, material.revision)
        self._stderr: Final = LastLines()
        self._pings = 0
        self._patience: Final = Patience(recording)
        recording.add_listener(self._on_record)

    @property
    def is_gone(self) -> bool:
        """Whether the process has ended."""
        return bool(self._client.gone)

    def client(self, session: int) -> RpcConnection:  # noqa: ARG002 # a process has one session
        """Return the only client."""
        return self._client

    def clients(self) -> list[RpcConnection]:
        """Return the only client."""
        return [self._client]

    async def open(self) -> None:
        """Start the process."""
        await self._client.open()
        # ``RpcConnection`` takes a response with an unknown id for the answer to the only open request. With
        # this request, which is never sent, a request of ours is never the only one.
        self._client.expect("never sent")

    async def send(self, step: FuzzStep, index: int, answer_s: float) -> Symptom | None:
        """Write a step, and wait for its answers."""
        pending = [self._client.expect(id, step.method) for id in step.ids]
        self.is_silent = False
        before = len(self._client.unsolicited)
        try:
            await self._patience.wait(self._write_step(step), max(answer_s, _READING_S))
        except TimeoutError:
            return hang_symptom("it does not read its stdin", step, index)
        except GoneError:
            return self._end_symptom(step, index)
        if pending:
            await self._await_answers(pending, before, answer_s)
        return self._end_symptom(step, index) if self.is_gone else None

    async def ping(self, step: FuzzStep, index: int, timeout_s: float) -> Symptom | None:
        """Send a ping and wait for the answer."""
        self._pings += 1
        try:
            await _ping(self._client, self._pings, timeout_s, self._patience)
        except (TimeoutError, TimedOutError):
            return hang_symptom(f"it does not answer a ping within {timeout_s:g} s", step, index)
        except GoneError:
            return self._end_symptom(step, index)
        except ValidateError:
            return None  # it answered, though wrongly, which the judge reports
        return None

    async def close(self, *, is_orderly: bool) -> None:
        """End the process; kill it unless ``is_orderly``."""
        if not is_orderly:
            await self._wire.kill()
        await self._client.close()

    async def _write_step(self, step: FuzzStep) -> None:
        if not step.pieces:
            await self._wire.send(step.raw)
            return
        async with self._wire.write_lock:
            for number, piece in enumerate(step.pieces):
                if number:
                    await asyncio.sleep(_BETWEEN_PIECES_S)
                await self._wire.write(piece)

    async def _await_answers(self, pending: list[Pending], before: int, answer_s: float) -> None:
        """Wait for the answers, or for an error without an id, which may refuse a request.

        ``before`` is the number of unsolicited frames before the step.
        """
        tasks = [
            asyncio.create_task(_await_all(pending)),
            asyncio.create_task(self._await_refusal(before, answer_s)),
        ]
        done, _ = await asyncio.wait(tasks, timeout=answer_s, return_when=asyncio.FIRST_COMPLETED)
        self.is_silent = tasks[0] not in done
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for request in pending:
            self._client.forget(request)

    async def _await_refusal(self, before: int, answer_s: float) -> None:
        """Wait for an error without an id; the first ``before`` unsolicited frames are older."""
        while frame := await self._client.next_unsolicited(answer_s, before):
            if isinstance(frame.message, ErrorResponse) and not isinstance(frame.message.id, int | str):
                return
            before += 1
        await asyncio.Event().wait()

    def _end_symptom(self, step: FuzzStep, index: int) -> Symptom | None:
        why = self._client.gone
        if why.startswith("it sent"):  # it sent more than a recording can hold, so the wire ended the process
            return None
        return end_symptom(self._wire.exit_code, why, self._stderr, step, index)

    def _on_record(self, event: Recorded) -> None:
        if isinstance(event, Stderr):
            self._stderr.add(event.raw)


async def _ping(client: RpcConnection, number: int, timeout_s: float, patience: Patience) -> None:
    """Send a ping and wait for the answer.

    Raises:
        TimeoutError: there was no answer in time.
        ValidateError: the server is gone, or its answer is not a result.
    """
    request = client.request(client.ping_method, id=f"ping-{number}", timeout_s=MOST_TIMES * timeout_s)
    await patience.wait(request, timeout_s)


async def _await_all(pending: list[Pending]) -> None:
    for request in pending:
        await request.events.get()


class HttpPeer:
    """An endpoint, and one or more sessions with it. All of them are in one recording."""

    def __init__(self, target: Target, recording: SessionRecording, material: Material) -> None:
        from mcpproxy.peers.validate.transports.http_endpoint import HttpEndpoint

        self.recording = recording
        self.refusal: ValidateError | None = None
        self.is_gone = False
        self.is_silent = False
        self._endpoint: Final = HttpEndpoint(recording, target.url, target.headers, target.upstream)
        mirrors = {template.name: read_mirrors(template.schema) for template in material.templates}
        self._endpoint.mirrors.update(mirrors)
        self._material: Final = material
        self._wires: Final[dict[int, HttpWire]] = {}
        self._clients: Final[dict[int, RpcConnection]] = {}
        self._pings = 0
        self._patience: Final = Patience(recording)

    async def open(self) -> None:
        """Do nothing: connections are made when they are needed."""

    def client(self, session: int) -> RpcConnection:
        """Return the client of the session with this number; make it at the first call."""
        if session not in self._clients:
            from mcpproxy.peers.validate.transports.http_wire import HttpWire

            self._wires[session] = HttpWire(self._endpoint)
            client = self._clients[session] = RpcConnection(self._wires[session], self._material.revision)
            client.expect("never sent")
        return self._clients[session]

    def clients(self) -> list[RpcConnection]:
        """Return the clients of all sessions so far."""
        return list(self._clients.values())

    async def send(self, step: FuzzStep, index: int, answer_s: float) -> Symptom | None:
        """Post a step, and wait for its answers or the end of the exchange."""
        client = self.client(step.session)
        wire = self._wires[step.session]
        headers = dict(wire.headers(step.raw))
        for name, value in step.headers:
            headers = {key: old for key, old in headers.items() if key.lower() != name.lower()}
            if value is not None:
                headers[name] = value
        pending = [client.expect(id, step.method) for id in step.ids]
        self.is_silent, self.refusal = False, None
        try:
            posting = wire.post(step.raw, list(headers.items()))
            exchange = await self._patience.wait(posting, max(answer_s, _READING_S))
        except TimeoutError:
            return hang_symptom("it does not read the request", step, index)
        except GoneError as fault:
            self.refusal = fault
            return self._lost_symptom(str(fault), step, index)
        finally:
            for request in pending:
                client.forget(request)
        try:
            async with asyncio.timeout(answer_s):
                await exchange.wait_until(lambda: bool(step.ids) and len(exchange.answers) >= len(step.ids))
        except TimeoutError:
            self.is_silent = True
            return None
        for frame in exchange.frames:
            wire.version = wire.version or negotiated_version(frame.raw)
        if exchange.failure:
            self.refusal = GoneError(f"the server {exchange.failure}")
            return self._lost_symptom(str(self.refusal), step, index)
        answers = exchange.answers
        if exchange.status >= 300 and not answers:
            refused = self._endpoint.refusal(exchange)
            self.refusal = HttpStatusError(f"HTTP status {refused.words}", (), refused.status, refused.advice)
        return _status_symptom(exchange.status, answers, step, index)

    async def ping(self, step: FuzzStep, index: int, timeout_s: float) -> Symptom | None:
        """Post a ping and wait for any answer to it."""
        self._pings += 1
        try:
            await _ping(self.client(step.session), self._pings, timeout_s, self._patience)
        except (TimeoutError, TimedOutError):
            return hang_symptom(f"it does not answer a ping within {timeout_s:g} s", step, index)
        except GoneError as fault:
            return self._lost_symptom(str(fault), step, index)
        except ValidateError:
            return None  # it answered, though wrongly, which the judge reports
        return None

    async def close(self, *, is_orderly: bool) -> None:
        """Close all connections. If ``is_orderly``, end the sessions first."""
        for client in self._clients.values():
            if is_orderly:
                await client.close()
        await self._endpoint.close()

    def _lost_symptom(self, why: str, step: FuzzStep, index: int) -> Symptom | None:
        """Return the fault for an exchange that failed; ``None`` if it failed for a lawful reason.

        Such reasons are an answer that was too long for us, and a step that was not lawful, if the server
        can still be reached.

        ``why`` is a clause such as ``the server cannot be reached``.
        """
        if why.startswith("the server sent"):  # the answer was too long for us to read
            return None
        self.is_gone = "cannot be reached" in why
        if not (self.is_gone or step.is_lawful):
            return None
        if self.is_gone:
            return Symptom("crash", GONE, "nothing listens any more", index)
        how = "cut the exchange short"
        return Symptom("crash", f"crash {how} {subject_of(step)}", how, index)


def _status_symptom(
    status: int, answers: list[Response | ErrorResponse], step: FuzzStep, index: int
) -> Symptom | None:
    """Return the fault for a status 500 without a JSON-RPC error in the body; ``None`` for any other."""
    if status != 500 or any(isinstance(answer, ErrorResponse) for answer in answers):
        return None
    return Symptom("crash", f"crash 500 {subject_of(step)}", "failed with HTTP status 500", index)
