"""The JSON paths of values in a message that differ in every run: ids, progress tokens, cursors.

A replay replaces these values in the bytes of the message (``mcpproxy.protocol.raw_json``). So the order of
members, the spacing and the escapes stay as they were recorded.
"""

from typing import Final

from mcpproxy.protocol.meta_keys import SUBSCRIPTION_ID_KEY
from mcpproxy.protocol.raw_json import Path

ID: Final[Path] = ("id",)
CURSOR: Final[Path] = ("params", "cursor")
PROGRESS_TOKEN: Final[Path] = ("params", "progressToken")
REQUEST_ID: Final[Path] = ("params", "requestId")
OWN_TOKEN: Final[Path] = ("params", "_meta", "progressToken")
"""The progress token that a request chooses for its progress notifications."""
OWN_SUBSCRIPTION: Final[Path] = ("params", "_meta", SUBSCRIPTION_ID_KEY)
"""The member of a notification that names the request which opened its subscription."""
