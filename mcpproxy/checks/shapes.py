"""The members of params and results, where no rule of their own speaks of them.

Source: the schema of each protocol revision.
"""

from collections.abc import Iterator

from mcpproxy.checks.breach import Breach, Passing
from mcpproxy.session.history import History


def message_shape(passing: Passing, history: History) -> Iterator[Breach]:
    """RPC-023"""
    yield from ()
