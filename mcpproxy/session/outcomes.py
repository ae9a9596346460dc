"""What a row of a recording is about, and how a call ended."""

from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """What a row is about. A row of any kind but ``REQUEST`` is an *orphan*: it belongs to no request."""

    REQUEST = "request"
    ANSWER = "answer"
    """A response or an error to which there is no open request."""
    NOTIFICATION = "notification"
    NOT_A_MESSAGE = "not a message"
    """A line, body or event that is not a JSON-RPC message."""
    EXCHANGE = "http"
    """An HTTP request that carries no request of JSON-RPC."""
    STDERR = "stderr"
    """Lines that the server wrote to stderr while no request was open. Successive lines are one row."""
    GAP = "gap"
    """Bytes that passed without being recorded."""


class Outcome(StrEnum):
    """How a call ended. The values are the words of ``status:`` in a filter."""

    OK = "ok"
    TOOL_ERROR = "tool-error"
    """A result with ``isError``."""
    RPC_ERROR = "rpc-error"
    """A JSON-RPC error; its code is the ``error_code``."""
    HTTP_ERROR = "http-error"
    """No JSON-RPC answer, but an HTTP status of 400 or more, which is the ``error_code``."""
    INPUT_REQUIRED = "input-required"
    """A result that asks the client to send the request again with more input."""
    NO_ANSWER = "no-answer"
    CANCELLED = "cancelled"
    """Cancelled before it was answered."""
    REFUSED = "refused"
    """Refused or answered by mcpproxy itself."""
    NONE = "none"
    """The row is not about something that has an answer."""


ERRORS: Final = frozenset({Outcome.TOOL_ERROR, Outcome.RPC_ERROR, Outcome.HTTP_ERROR})
