"""Which authorization server gave which credential, as far as one recording shows it. No I/O, no clock.

Only a recording with absolute request targets (that of a forward proxy) shows several servers. A server is
known by *names*: the issuer in its metadata, and the URL at which the metadata lie. Credentials may be masks:
equal ones have equal masks.
"""

from typing import Final

from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.session.history import keep_latest

_MOST: Final = 1_024
"""How many servers, resources and credentials are remembered of each kind."""

_MOST_NAMES: Final = 64
"""How many names or places of one thing are remembered. Of what has more, nothing is concluded."""

Names = frozenset[str]
Places = frozenset[str]

_NONE: Final[frozenset[str]] = frozenset()


@slotted(frozen=True)
class Issued:
    """The places (URLs of endpoints) that gave a credential, and the frame in which it came last."""

    places: Places
    seq: int


@slotted()
class Issuers:
    """Authorization servers, the resources that name them, and the credentials that they gave.

    ``named`` are the names of the servers that have an endpoint, by its URL; ``endpoints`` the URLs of all
    endpoints of a server, by its name; ``wanted`` the names that the metadata of a resource have ever listed.
    """

    named: dict[str, Names] = field(default_factory=dict[str, Names])
    endpoints: dict[str, Places] = field(default_factory=dict[str, Places])
    wanted: dict[str, Names] = field(default_factory=dict[str, Names])
    tokens: dict[str, Issued] = field(default_factory=dict[str, Issued])
    secrets: dict[str, Issued] = field(default_factory=dict[str, Issued])

    def add_server(self, names: Names, places: Places) -> None:
        """Remember the endpoints in the metadata of a server."""
        for place in places:
            keep_latest(self.named, place, _joined(self.named.get(place, _NONE), names), _MOST)
        for name in names:
            keep_latest(self.endpoints, name, _joined(self.endpoints.get(name, _NONE), places), _MOST)

    def add_resource(self, resource: str, servers: Names) -> None:
        """Remember which servers the metadata of a resource list."""
        keep_latest(self.wanted, resource, _joined(self.wanted.get(resource, _NONE), servers), _MOST)

    def add_credential(self, table: dict[str, Issued], credential: str, place: str, seq: int) -> None:
        """Remember that an endpoint gave a credential; ``table`` is ``tokens`` or ``secrets``."""
        earlier = table.get(credential)
        places = _joined(earlier.places if earlier else _NONE, frozenset((place,)))
        keep_latest(table, credential, Issued(places, seq), _MOST)

    def others_gave(self, issued: Issued, servers: Names) -> bool:
        """Whether certainly none of ``servers`` gave a credential, because all are known, and other ones did.

        A server whose metadata were not seen may be the same as the one that gave it, under another name.
        """
        givers = [self.named.get(place) for place in issued.places]
        if not servers or not all(givers) or any(names & servers for names in givers if names):
            return False
        known = [self.endpoints.get(name) for name in servers]
        if any(map(_is_full, (issued.places, servers, *filter(None, givers), *filter(None, known)))):
            return False
        return all(places is not None and not places & issued.places for places in known)

    def wanted_at(self, url: str) -> Names:
        """Return the names of the servers whose tokens the resource at ``url`` takes; empty if not known."""
        found = _NONE
        for resource, names in self.wanted.items():
            if url == resource or url.startswith(resource + "/"):
                found |= names
        return found


def _joined(known: frozenset[str], new: frozenset[str]) -> frozenset[str]:
    return known if _is_full(known) else known | new


def _is_full(known: frozenset[str]) -> bool:
    return len(known) >= _MOST_NAMES
