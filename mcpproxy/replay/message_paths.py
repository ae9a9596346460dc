"""Where in a message the names stand that a live client or server chose this time.

They are the id of a request in its answer, its progress token in notifications of progress, the id where a
cancellation refers to it, a cursor. Replay replaces them in the text of the message
(``mcpproxy.protocol.raw_json``), so that the order of members, spacing and escapes are the server's.
"""

from typing import Final

from mcpproxy.protocol.raw_json import Path

ID: Final[Path] = ("id",)
CURSOR: Final[Path] = ("params", "cursor")
PROGRESS_TOKEN: Final[Path] = ("params", "progressToken")
REQUEST_ID: Final[Path] = ("params", "requestId")
OWN_TOKEN: Final[Path] = ("params", "_meta", "progressToken")
"""Where a request says under which token it wants to hear of its progress."""
SUBSCRIPTION_ID: Final = "io.modelcontextprotocol/subscriptionId"
"""The member of ``_meta`` that names the request which opened a subscription."""
