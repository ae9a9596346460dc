"""Facts that the judge knows about an HTTP exchange before any check runs: bits of one number.

Most exchanges are correct, and a check that is not called costs nothing. So a row names in ``given`` the
facts of which one must hold before its check can find anything. As with the facts about messages, the check
itself still tests everything.
"""

from typing import Final, TypeAlias

HttpFact: TypeAlias = int

# Facts about the request, which are then known at all later moments

SESSION_MAY_DIFFER: Final[HttpFact] = 1 << 0
"""The session id or the version in its head may not be that of a session that is still open."""
UNUSUAL_HEADERS: Final[HttpFact] = 1 << 1
"""Its Accept or Content-Type is not what nearly all clients send."""
WITH_TOKEN: Final[HttpFact] = 1 << 2
"""It has an Authorization header."""
WITH_ORIGIN: Final[HttpFact] = 1 << 3
"""It has an Origin header."""
WITH_QUERY: Final[HttpFact] = 1 << 4
"""Its target has a query."""
UNEXPECTED_BODY: Final[HttpFact] = 1 << 5
"""Its body is several JSON texts, or contains a message although the method is not POST."""
WITHOUT_REQUEST: Final[HttpFact] = 1 << 6
"""Its body contains no request."""
VERSIONS_DIFFER: Final[HttpFact] = 1 << 7
"""A stateless request names one version in its head and another in its body."""
LEGACY_ENDPOINT_KNOWN: Final[HttpFact] = 1 << 8
"""Some HTTP+SSE stream has named the URI to which its client must post."""
CHALLENGED: Final[HttpFact] = 1 << 9
"""Some request was answered with 401."""

# Facts about the response

ISSUES_SESSION_ID: Final[HttpFact] = 1 << 10
"""Its head issues a session id."""
CANNOT_ANSWER: Final[HttpFact] = 1 << 11
"""Its head shows that it contains no answer, although the request needs one."""
STREAMING: Final[HttpFact] = 1 << 12
"""It is an SSE stream."""
SESSION_ENDED: Final[HttpFact] = 1 << 13
"""Its session is over."""
UNANSWERED: Final[HttpFact] = 1 << 14
"""Some request may still await its response now that the exchange is over."""

# Facts about a body or an event

UNAWAITED: Final[HttpFact] = 1 << 15
"""It is anything but a result that a request of its exchange awaits."""
WITH_FAULT: Final[HttpFact] = 1 << 16
"""It contains an error, or the exchange has broken some rule before."""
FOR_ONE_REQUEST: Final[HttpFact] = 1 << 17
"""It contains what belongs to one request: an answer, or progress of what may be another request."""
AFTER_ANSWERS: Final[HttpFact] = 1 << 18
"""All requests of the exchange were answered before it."""
SEEN_BEFORE: Final[HttpFact] = 1 << 19
"""Its event id, or its message on another stream, was seen before."""
FIRST_EVENT: Final[HttpFact] = 1 << 20
"""It is the first event of its exchange."""
NAMED_EVENT: Final[HttpFact] = 1 << 21
"""It is an event with a name other than message."""

ALL_FACTS: Final[HttpFact] = -1
"""All facts, for when nothing is known: every check runs."""
