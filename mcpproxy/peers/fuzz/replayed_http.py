"""The recorded and judged connection over which the fuzzer repeats a fault as ``replay client`` would."""

from typing import Final

from mcpproxy.peers.fuzz.symptoms import Symptom
from mcpproxy.peers.replay.client.http_link import HttpLink
from mcpproxy.peers.replay.recording import RecordedSession
from mcpproxy.peers.validate.recordings import Target
from mcpproxy.peers.validate.session_recording import SessionRecording
from mcpproxy.peers.validate.transports.http_endpoint import HttpEndpoint


class RecordedHttpLink(HttpLink):
    """The HTTP link of ``replay client``, whose bytes are recorded in ``recording``."""

    has_ended: Final = False
    """Whether a process of ours ended by itself: over HTTP there is none."""

    def __init__(self, target: Target, recording: SessionRecording, session: RecordedSession) -> None:
        self._tape: Final = HttpEndpoint(recording, target.url, target.headers, target.upstream)
        super().__init__(target.url, session, target.headers, self._tape, target.upstream)

    async def close(self) -> None:
        """Close all connections, and the recording."""
        await super().close()
        await self._tape.close()

    def shows_end(self, symptom: Symptom) -> bool:
        """Whether an exchange had status 500, if that is the symptom, or otherwise whether any failed."""
        return 500 in self.statuses if symptom.key.startswith("crash 500") else bool(self.failures)
