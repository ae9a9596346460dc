"""Find the open request that a later message refers to.

On stdio, a message refers to a request by its id; over HTTP, by the exchange and the id, or by the session
and the id. Progress refers to it by its token.
"""

from typing import Final, TypeAlias

from mcpproxy.protocol.jsonrpc import RequestId

Key: TypeAlias = int | str | tuple[int | str, RequestId]
"""A key of a request. On stdio it is the id. Over HTTP a request has two keys: the number of the exchange
with the id, and the name of the session with the id."""

Token: TypeAlias = tuple[bool, int, RequestId]
"""Whether the client sent the request, its session, and its progress token."""


class PendingRequests:
    """The rows (numbers of calls) that open requests have in the index.

    ``client`` is whether the client sent the request; row 0 means none.
    """

    def __init__(self) -> None:
        self.by_key: Final[tuple[dict[Key, int], dict[Key, int]]] = ({}, {})
        """Key -> row of the open request, for requests of the server and for requests of the client."""
        self._given_up: Final[tuple[dict[Key, int], dict[Key, int]]] = ({}, {})
        """The same for requests that were cancelled and may still be answered."""
        self._keys: Final[dict[int, tuple[Key, ...]]] = {}
        """Over HTTP: row of an open request -> its keys."""
        self._by_token: Final[dict[Token, int]] = {}
        self.token_of: Final[dict[int, Token]] = {}
        """Row of an open request -> its token, if it has one."""

    def add_single(self, row: int, client: bool, key: Key) -> None:
        """Add a request that has this key alone."""
        self.by_key[client][key] = row

    def add(self, row: int, client: bool, keys: tuple[Key, ...]) -> None:
        """Add a request that has several keys."""
        self._keys[row] = keys
        for key in keys:
            self.add_single(row, client, key)

    def close(self, key: Key, client: bool) -> int:
        """Remove the request that has this key alone, and return its row; 0 if there is none."""
        return self.by_key[client].pop(key, 0) or self._given_up[client].pop(key, 0)

    def find(self, client: bool, keys: tuple[Key, ...]) -> int:
        """Return the row of the request that has one of ``keys``; 0 if there is none.

        Requests that were not cancelled come first.
        """
        tables = (self.by_key[client], self._given_up[client])
        return next((rows[key] for rows in tables for key in keys if key in rows), 0)

    def close_row(self, row: int, client: bool) -> None:
        """Remove a request that ``add`` added, with all of its keys; any other row is ignored."""
        for key in self._keys.pop(row, ()):
            for rows in (self.by_key[client], self._given_up[client]):
                if rows.get(key) == row:
                    del rows[key]

    def give_up(self, key: Key, client: bool) -> int:
        """Mark a request as cancelled, and return its row; 0 if there is none."""
        row = self.by_key[client].pop(key, 0)
        if row:
            self._given_up[client][key] = row
        return row

    # Progress

    def add_token(self, row: int, token: Token) -> None:
        """Remember the token of a request."""
        self.token_of[row] = token
        self._by_token[token] = row

    def with_token(self, token: Token) -> int:
        """Return the row of the open request with a token; 0 if there is none."""
        return self._by_token.get(token, 0)

    def pop_token(self, row: int) -> Token | None:
        """Forget the token of a request, and return it; ``None`` if it has none."""
        token = self.token_of.pop(row, None)
        if token is not None:
            self._by_token.pop(token, None)
        return token
