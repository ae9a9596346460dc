"""The HTTP statuses of redirects, by what they ask of a client.

Source: https://www.rfc-editor.org/rfc/rfc9110 (section 15.4).
"""

from typing import Final

REDIRECTS: Final = (301, 302, 303, 307, 308)
"""The statuses whose ``Location`` names another URL for the request, or for what it was about."""

SAME_REQUEST: Final = (307, 308)
"""Those after which the same request is sent again to another URL. The official SDKs do so within the
origin, and send no POST again after other statuses."""

MAYBE_LOGIN: Final = (302, 303)
"""Those with which gateways send a browser to a page for its login."""
