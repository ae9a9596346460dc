"""Facts that are known about an HTTP exchange before any check runs. Each is one bit of a number.

Most exchanges are correct, and a check that is not called takes no time. So the row of a check may name facts
in ``given``. If none of them holds, the check cannot find anything and is not called. The facts only save
time: the check itself tests everything again.
"""

from typing import Final, TypeAlias

HttpFact: TypeAlias = int

# Facts about the HTTP request. They hold until the end of the exchange.

SESSION_MAY_DIFFER: Final[HttpFact] = 1 << 0
"""The headers may name a session that is not open, or a version other than that of the session."""
UNUSUAL_HEADERS: Final[HttpFact] = 1 << 1
"""Accept or Content-Type does not have the value that nearly all clients send."""
WITH_TOKEN: Final[HttpFact] = 1 << 2
"""The request has an Authorization header."""
WITH_ORIGIN: Final[HttpFact] = 1 << 3
"""The request has an Origin header."""
WITH_QUERY: Final[HttpFact] = 1 << 4
"""The request target has a query."""
UNEXPECTED_BODY: Final[HttpFact] = 1 << 5
"""The body is several JSON texts, or contains a message although the HTTP method is not POST."""
WITHOUT_REQUEST: Final[HttpFact] = 1 << 6
"""The body contains messages, but no JSON-RPC request."""
VERSIONS_DIFFER: Final[HttpFact] = 1 << 7
"""A stateless request names a version in its headers, and another one or none in its body."""
LEGACY_ENDPOINT_KNOWN: Final[HttpFact] = 1 << 8
"""Some HTTP+SSE stream has named the URI to which its client must post."""
CHALLENGED: Final[HttpFact] = 1 << 9
"""Some request of a session was answered with 401."""
WITH_PROOF: Final[HttpFact] = 1 << 22
"""The request has a DPoP header."""

# Facts about the HTTP response

ISSUES_SESSION_ID: Final[HttpFact] = 1 << 10
"""The response has a session id in its headers."""
CANNOT_ANSWER: Final[HttpFact] = 1 << 11
"""The status or the media type of the response shows that it does not contain the required answer."""
STREAMING: Final[HttpFact] = 1 << 12
"""The response is an SSE stream."""
SESSION_ENDED: Final[HttpFact] = 1 << 13
"""The session of the exchange is over."""
UNANSWERED: Final[HttpFact] = 1 << 14
"""The exchange is over, and some JSON-RPC request in it may not have been answered."""

# Facts about a body or an SSE event

UNAWAITED: Final[HttpFact] = 1 << 15
"""The content is a body that is not the result that a request of the exchange awaits."""
WITH_FAULT: Final[HttpFact] = 1 << 16
"""The content has a JSON-RPC error, or the exchange has broken some rule before."""
FOR_ONE_REQUEST: Final[HttpFact] = 1 << 17
"""The content has an answer, or reports progress that may belong to a request in another exchange."""
AFTER_ANSWERS: Final[HttpFact] = 1 << 18
"""All requests of the exchange were answered before this event."""
SEEN_BEFORE: Final[HttpFact] = 1 << 19
"""The event id was seen before, or the message was seen on another stream."""
FIRST_EVENT: Final[HttpFact] = 1 << 20
"""The event is the first of its exchange."""
NAMED_EVENT: Final[HttpFact] = 1 << 21
"""The event has a name other than message."""

ALL_FACTS: Final[HttpFact] = -1
"""All bits are set. With this number every check runs, for example when the facts are not known."""
