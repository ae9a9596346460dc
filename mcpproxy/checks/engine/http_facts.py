"""What the judge knows of an exchange before any check of it looks: bits, any number of them at once.

Most exchanges are as they should be, and a check that need not be called costs nothing: a row names (as its
``given``) what must be the case for it to matter at all. As with the facts of messages, none of this
replaces what the check itself asks.
"""

from typing import Final, TypeAlias

HttpFact: TypeAlias = int

# Of the request, known from then on

ASTRAY: Final[HttpFact] = 1 << 0
"""The session id and the version in its head may not be those of a session that goes on."""
UNUSUAL: Final[HttpFact] = 1 << 1
"""What it accepts, or what it says its content is, is not what nearly all clients say."""
WITH_TOKEN: Final[HttpFact] = 1 << 2
"""It has Authorization."""
FOREIGN: Final[HttpFact] = 1 << 3
"""It names an origin."""
QUERIED: Final[HttpFact] = 1 << 4
"""Its target has a query."""
MISPLACED: Final[HttpFact] = 1 << 5
"""Its body is several texts, or holds a message though the method is not POST."""
NOTIFIES: Final[HttpFact] = 1 << 6
"""Its body holds nothing that is to be answered."""
CONTRADICTED: Final[HttpFact] = 1 << 7
"""Of a stateless request: the version in its head is not that in its body."""
DIVERTED: Final[HttpFact] = 1 << 8
"""Some stream has named where its client is to post."""
CHALLENGED: Final[HttpFact] = 1 << 9
"""Some request was answered with 401."""

# Of the response

ISSUING: Final[HttpFact] = 1 << 10
"""Its head has a session id."""
UNFIT: Final[HttpFact] = 1 << 11
"""By its head there is no answer in it, though there is something to be answered."""
STREAMING: Final[HttpFact] = 1 << 12
"""It is an event stream."""
OVER: Final[HttpFact] = 1 << 13
"""Its session is over."""
UNANSWERED: Final[HttpFact] = 1 << 14
"""Some request may still await its response now that the exchange is over."""

# Of a body or an event

STRANGE: Final[HttpFact] = 1 << 15
"""It is not just the result that one of the requests of its exchange awaits."""
FAILING: Final[HttpFact] = 1 << 16
"""It holds an error, or something of the exchange was reported before."""
RELATED: Final[HttpFact] = 1 << 17
"""It holds what belongs to a certain request: an answer, or progress that may be that of another one."""
LATE: Final[HttpFact] = 1 << 18
"""All requests of the exchange had their responses before."""
TWICE: Final[HttpFact] = 1 << 19
"""The same id, or the same message on another stream, came before."""
FIRST: Final[HttpFact] = 1 << 20
"""It is the first event of its exchange."""
NAMED: Final[HttpFact] = 1 << 21
"""It is an event with a name other than message."""

ANYTHING: Final[HttpFact] = -1
"""All of them, where nothing is known: every check looks."""
