"""The exceptions that our client, and the probes that use it, raise while they test a server."""

from mcpproxy.errors import McpProxyError


class ValidateError(McpProxyError):
    """The base class of these exceptions. ``frames`` are the numbers of the frames that are evidence."""

    def __init__(self, text: str, frames: tuple[int, ...] = ()) -> None:
        super().__init__(text)
        self.frames = frames


class CouldNotStartError(ValidateError):
    """The command cannot be run, or there is no MCP server at the URL."""


class MovedError(CouldNotStartError):
    """The server redirects the first request to ``url``, another path of its origin."""

    def __init__(self, text: str, frames: tuple[int, ...], url: str) -> None:
        super().__init__(text, frames)
        self.url = url


class UnansweredError(ValidateError):
    """No answer came. ``method`` is the method of the request, if it is known."""

    def __init__(self, text: str, frames: tuple[int, ...] = (), method: str = "") -> None:
        super().__init__(text, frames)
        self.method = method


class GoneError(UnansweredError):
    """The server is gone or cannot be reached, or an exchange with it ended without an answer."""


class TimedOutError(UnansweredError):
    """There was no response within the time limit, or the server did not read a message within it."""


class ForeignEndpointError(ValidateError):
    """With HTTP+SSE, the server names an endpoint to which no message, and no credential, may be sent."""


class NotInitializedError(ValidateError):
    """The session is not open yet; call ``initialize`` or ``discover`` first."""


class AlreadyInitializedError(ValidateError):
    """The session is open already."""


class UnsupportedVersionError(ValidateError):
    """The server does not support the revision that we need. ``offered`` are the revisions that it names."""

    def __init__(self, text: str, frames: tuple[int, ...] = (), offered: tuple[str, ...] = ()) -> None:
        super().__init__(text, frames)
        self.offered = offered


class IdMismatchError(ValidateError):
    """A response has an id that belongs to no open request.

    ``is_refusal_without_id`` is true for an error without an id, which a server sends if it cannot read a
    request.
    """

    def __init__(
        self, text: str, frames: tuple[int, ...] = (), *, is_refusal_without_id: bool = False
    ) -> None:
        super().__init__(text, frames)
        self.is_refusal_without_id = is_refusal_without_id


class MalformedAnswerError(ValidateError):
    """The answer is not a JSON-RPC response, or its result does not have the required form."""


class RefusedError(ValidateError):
    """The response is an error, with this ``code`` and ``message``."""

    def __init__(self, text: str, frames: tuple[int, ...], code: object, message: object) -> None:
        super().__init__(text, frames)
        self.code = code
        self.message = message


class HttpStatusError(ValidateError):
    """The HTTP response has a ``status`` from 300 on, and no response to the request.

    ``advice`` is what the user can do about it, as a clause, or empty. ``moved_to`` is the URL of the
    same origin to which the request is redirected, or empty.
    """

    def __init__(
        self, text: str, frames: tuple[int, ...], status: int, advice: str = "", moved_to: str = ""
    ) -> None:
        super().__init__(text, frames)
        self.status = status
        self.advice = advice
        self.moved_to = moved_to


class ToolFailedError(ValidateError):
    """The result of the tool has ``isError``, or (``ToolNotFoundError``) there is no such tool."""


class ToolNotFoundError(ToolFailedError):
    """The server has no tool of that name."""


class Skipped(Exception):  # noqa: N818 # not an error
    """A probe (one test of a server) does not apply. The text is the reason, as a clause."""
