"""Remember which authorization server issued which credential, as far as one recording shows it.

Only a recording with absolute request targets (of a forward proxy) shows several servers. A server is
identified by *names*: the issuer in its metadata, and the URL of the metadata. Its *places* are the URLs of
its endpoints. Credentials may be masked; equal credentials have equal masks. No I/O, no clock.
"""

from typing import Final

from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.session.history import keep_latest

_MOST_KEPT: Final = 1_024
"""The number of servers, of resources and of credentials of each kind that are remembered."""

_MOST_NAMES: Final = 64
"""From this number of names or places of one server or credential on, none are added, and nothing is
concluded."""

Names = frozenset[str]
Places = frozenset[str]

_NONE: Final[frozenset[str]] = frozenset()


@slotted(frozen=True)
class Issued:
    """The places (URLs of endpoints) that issued a credential, and the frame in which it was issued last."""

    places: Places
    seq: int


@slotted()
class Issuers:
    """Authorization servers, the resources that name them, and the credentials that they issued.

    ``named`` has, by URL of an endpoint, the names of its servers. ``endpoints`` has, by name of a server,
    the URLs of its endpoints. ``wanted`` has, by resource, the names of servers that its metadata ever
    listed. ``tokens`` and ``secrets`` have the access tokens and the client secrets that were issued.
    """

    named: dict[str, Names] = field(default_factory=dict[str, Names])
    endpoints: dict[str, Places] = field(default_factory=dict[str, Places])
    wanted: dict[str, Names] = field(default_factory=dict[str, Names])
    tokens: dict[str, Issued] = field(default_factory=dict[str, Issued])
    secrets: dict[str, Issued] = field(default_factory=dict[str, Issued])

    def add_server(self, names: Names, places: Places) -> None:
        """Remember the endpoints in the metadata of a server."""
        for place in places:
            keep_latest(self.named, place, _joined(self.named.get(place, _NONE), names), _MOST_KEPT)
        for name in names:
            keep_latest(self.endpoints, name, _joined(self.endpoints.get(name, _NONE), places), _MOST_KEPT)

    def add_resource(self, resource: str, servers: Names) -> None:
        """Remember which servers the metadata of a resource list."""
        keep_latest(self.wanted, resource, _joined(self.wanted.get(resource, _NONE), servers), _MOST_KEPT)

    def add_credential(self, table: dict[str, Issued], credential: str, place: str, seq: int) -> None:
        """Remember in ``table`` (``tokens`` or ``secrets``) that ``place``, an endpoint, issued a credential.

        ``seq`` is the frame in which it did.
        """
        earlier = table.get(credential)
        places = _joined(earlier.places if earlier else _NONE, frozenset((place,)))
        keep_latest(table, credential, Issued(places, seq), _MOST_KEPT)

    def others_gave(self, issued: Issued, servers: Names) -> bool:
        """Whether servers other than ``servers``, and certainly none of these, issued a credential.

        This is certain only if the metadata of all servers are known: without them, a server may be the
        issuer under another name.
        """
        issuer_names = [self.named.get(place) for place in issued.places]
        if not servers or not all(issuer_names) or any(names & servers for names in issuer_names if names):
            return False
        known = [self.endpoints.get(name) for name in servers]
        if any(map(_is_full, (issued.places, servers, *filter(None, issuer_names), *filter(None, known)))):
            return False
        return all(places is not None and not places & issued.places for places in known)

    def wanted_at(self, url: str) -> Names:
        """Return the names of the servers whose tokens the resource at ``url`` accepts; empty if unknown."""
        servers = _NONE
        for resource, names in self.wanted.items():
            if url == resource or url.startswith(resource + "/"):
                servers |= names
        return servers


def _joined(known: frozenset[str], new: frozenset[str]) -> frozenset[str]:
    return known if _is_full(known) else known | new


def _is_full(known: frozenset[str]) -> bool:
    return len(known) >= _MOST_NAMES
