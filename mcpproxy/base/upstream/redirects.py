"""The HTTP statuses of redirects, grouped by how a client reacts.

Source: https://www.rfc-editor.org/rfc/rfc9110 (section 15.4).
"""

from typing import Final

REDIRECTS: Final = (301, 302, 303, 307, 308)
"""The statuses whose ``Location`` names another URL: for the request, or for its result."""

SAME_REQUEST: Final = (307, 308)
"""The statuses after which a client sends the same request to the other URL. The official SDKs do so within
the same origin; after other statuses they do not send a POST again."""

MAYBE_LOGIN: Final = (302, 303)
"""The statuses with which gateways send a browser to a login page."""
