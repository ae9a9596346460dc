"""Find the request that an answer belongs to: an index of the requests that wait for their answers.

- Each peer chooses its own ids: an answer belongs to a request of the other peer.
- An id keeps its JSON type: ``1`` and ``"1"`` are two ids, and ``true`` is not an id.
- A request with the id of an open request replaces it: the next answer belongs to the later request.
- An answer closes its request: a second answer belongs to no request.
- A request without a usable id gets no answer, and an answer without a usable id belongs to no request.
- Over HTTP many sessions use the same ids. So a request has several scopes there, and an answer belongs to
  the request with which it shares the narrowest scope.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Generic, TypeAlias, TypeVar

from mcpproxy.judge.session.frame import Sender
from mcpproxy.protocol.jsonrpc import RequestId

T = TypeVar("T")

Scope: TypeAlias = int | str
"""A range in which ids are unique: the number of an exchange, or the name of a session."""

ONE_SESSION: Final[tuple[Scope, ...]] = ("",)
"""The scopes if there is only one session, such as on stdio."""


class UnansweredRequests(Generic[T]):
    """The open requests, each as a value ``T`` that the caller chooses.

    If there are more than ``most``, the oldest are forgotten; 0 keeps all. A request with two scopes counts
    twice.
    """

    def __init__(self, most: int = 0) -> None:
        self._most: Final = most
        self._open: Final[OrderedDict[tuple[Scope, Sender, RequestId], tuple[T, tuple[Scope, ...]]]] = (
            OrderedDict()
        )

    def add(
        self, sender: Sender, id: RequestId | None, request: T, scopes: tuple[Scope, ...] = ONE_SESSION
    ) -> None:
        """Keep ``request`` of ``sender`` until its answer comes. ``scopes`` begin with the narrowest."""
        if id is None:
            return
        entry = request, scopes
        for scope in scopes:
            self._open.pop((scope, sender, id), None)
            self._open[scope, sender, id] = entry
        while 0 < self._most < len(self._open):
            self._open.popitem(last=False)

    def find(self, sender: Sender, id: object, scopes: Iterable[Scope] = ONE_SESSION) -> T | None:
        """Return the open request of ``sender`` that a message with ``scopes`` names by its id.

        The first of ``scopes`` that has such a request counts. It is ``None`` if there is none.
        """
        if type(id) is not int and type(id) is not str:
            return None
        for scope in scopes:
            if (entry := self._open.get((scope, sender, id))) is not None:
                return entry[0]
        return None

    def take(self, sender: Sender, id: object, scopes: Iterable[Scope] = ONE_SESSION) -> T | None:
        """Return the request that an answer with ``scopes`` belongs to, as ``find`` does, and remove it.

        It is ``None`` if there is none.
        """
        if type(id) is not int and type(id) is not str:
            return None
        for scope in scopes:
            if (entry := self._open.get((scope, sender, id))) is not None:
                for its_scope in entry[1]:
                    if self._open.get((its_scope, sender, id)) is entry:
                        del self._open[its_scope, sender, id]
                return entry[0]
        return None

    def take_if(self, is_taken: Callable[[T], bool]) -> list[T]:
        """Return the open requests for which ``is_taken`` is true, the oldest first, and remove them."""
        keys = [key for key, (request, _) in self._open.items() if is_taken(request)]
        return _without_repetition([self._open.pop(key) for key in keys])

    def __iter__(self) -> Iterator[T]:
        """Iterate over the requests that are open now, the oldest first."""
        return iter(_without_repetition(list(self._open.values())))


def _without_repetition(entries: list[tuple[T, tuple[Scope, ...]]]) -> list[T]:
    """Return each request once, however many scopes it has."""
    return [request for request, _ in {id(entry): entry for entry in entries}.values()]
