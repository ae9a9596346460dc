"""What may go wrong while a client of ours talks to a server; the tree of them is in ``mcpproxy.errors``."""

from mcpproxy.errors import McpProxyError


class ValidateError(McpProxyError):
    """The base. ``frames`` are the numbers of the frames that show it."""

    def __init__(self, text: str, frames: tuple[int, ...] = ()) -> None:
        super().__init__(text)
        self.frames = frames


class CouldNotStartError(ValidateError):
    """The command cannot be run, or nobody listens at the URL."""


class GoneError(ValidateError):
    """The server ended or closed the connection before it had answered."""


class TimedOutError(ValidateError):
    """No answer within the time that was given."""


class NotInitializedError(ValidateError):
    """The session was not opened yet; call ``initialize`` or ``discover`` first."""


class AlreadyInitializedError(ValidateError):
    """The session was opened before."""


class UnsupportedVersionError(ValidateError):
    """The server speaks no revision that this client does. ``offered`` is what it speaks."""

    def __init__(self, text: str, frames: tuple[int, ...] = (), offered: tuple[str, ...] = ()) -> None:
        super().__init__(text, frames)
        self.offered = offered


class IdMismatchError(ValidateError):
    """An answer came whose id belongs to no request under way."""


class MalformedAnswerError(ValidateError):
    """What came in the place of an answer is no JSON-RPC response, or its result is not of its form."""


class RefusedError(ValidateError):
    """The answer is an error. ``code`` and ``message`` are those of JSON-RPC."""

    def __init__(self, text: str, frames: tuple[int, ...], code: object, message: object) -> None:
        super().__init__(text, frames)
        self.code = code
        self.message = message


class HttpStatusError(ValidateError):
    """The answer over HTTP is a status without a JSON-RPC message."""

    def __init__(self, text: str, frames: tuple[int, ...], status: int) -> None:
        super().__init__(text, frames)
        self.status = status


class ToolFailedError(ValidateError):
    """The tool ran and its result has ``isError``."""


class ToolNotFoundError(ToolFailedError):
    """The server has no tool of that name."""


class Skipped(Exception):  # noqa: N818 # it is no error
    """A probe does not apply here; its text is the reason, a clause."""
