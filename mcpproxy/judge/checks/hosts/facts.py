"""Facts about hosts, and which of them a session is judged by.

A *host* is a program with a client of MCP in it. A *fact* says what it does with a message that breaks no
rule, in which versions, and what shows it. ``ruleset.host_facts`` reads the facts from ``rules/hosts``.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias

from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.checks.engine.context import MessageContext, shortened
from mcpproxy.judge.session.history import History, SentRequest
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.revisions import CLIENT_INFO_KEY

Effect: TypeAlias = Literal["refused", "lost", "changed"]
"""What becomes of it: the server or a request is refused, a part is lost for the model, or it is changed."""

Grade: TypeAlias = Literal["measured", "source", "changelog", "document", "thread"]
"""What shows a fact, the best first: a run of the host, its source, its own changelog, a text, a report."""

GRADES: Final[tuple[Grade, ...]] = ("measured", "source", "changelog", "document", "thread")

SEEN: Final = "seen"
"""Stands for the host whose client is in the session."""

MAX_CLIENTS: Final = 256
"""The number of different clients of one recording whose facts are kept."""


@slotted(frozen=True, eq=False)
class HostFact:
    """One fact. ``says`` is what the host does, as a clause after its name: ``reads the first page only``.

    ``holds_in`` says whether it holds in a version; it is ``None`` if the versions are not known. A fact that
    has ended does not hold in newer versions. ``evidence`` says what shows it, and when. ``settings`` are
    what its ``kind`` needs to decide: limits, names, patterns. ``survey`` are the numbers of the statements
    that it was made of.
    """

    kind: str
    says: str
    effect: Effect
    grade: Grade
    versions: str
    holds_in: Callable[[str], bool] | None
    has_ended: bool
    evidence: str
    source: str
    survey: tuple[int, ...]
    settings: Mapping[str, Any]


@slotted(frozen=True, eq=False)
class KnownHost:
    """One host. ``clients`` are the names that only its clients have, ``shared_clients`` those of others too.

    A name that ends in ``*`` is the beginning of one. ``tells_version`` says whether its client gives the
    version that facts are about.
    """

    id: str
    name: str
    clients: tuple[str, ...]
    shared_clients: tuple[str, ...]
    tells_version: bool
    facts: tuple[HostFact, ...]

    def is_client(self, name: str) -> bool:
        """Whether a client with this name is one of this host, and of no other."""
        return any(name.startswith(own[:-1]) if own.endswith("*") else name == own for own in self.clients)


@slotted(frozen=True, eq=False)
class JudgedHost:
    """A host that a session is judged for. ``label`` is its name and version in a finding, and ``id`` what it
    is called in its data.
    """

    host: KnownHost
    id: str
    label: str
    facts: tuple[HostFact, ...]


Client: TypeAlias = tuple[str, str]
"""The name and the version that a client gives; the version is empty if it gives none."""


@slotted(eq=False)
class HostChoice:
    """The hosts that a user has chosen.

    ``named`` are hosts with the version for which they are asked about. If that is empty, it is the version
    of the client in the session, if that is one of the host, and otherwise not known. ``known`` are all hosts
    of which the client may be one, if ``SEEN`` is chosen; otherwise empty. Facts below the grade ``least``
    are left out.
    """

    named: tuple[tuple[KnownHost, str], ...] = ()
    known: tuple[KnownHost, ...] = ()
    least: Grade = "source"
    _by_client: dict[Client | None, tuple[JudgedHost, ...]] = field(
        default_factory=dict[Client | None, tuple[JudgedHost, ...]]
    )

    def hosts(self, client: Client | None) -> tuple[JudgedHost, ...]:
        """Return the hosts that a session of ``client`` is judged for; ``None`` if no client is known."""
        judged = self._by_client.get(client)
        if judged is None:
            judged = tuple(self._judged(client))
            if len(self._by_client) < MAX_CLIENTS:
                self._by_client[client] = judged
        return judged

    def _judged(self, client: Client | None) -> Iterator[JudgedHost]:
        name, its_version = client or ("", "")
        for host, asked in self.named:
            is_there = bool(name) and host.is_client(name) and host.tells_version
            yield self._of(host, asked or (its_version if is_there else ""), is_asked=True)
        for host in self.known:
            if name and host.is_client(name):
                yield self._of(host, its_version if host.tells_version else "", is_asked=False)

    def _of(self, host: KnownHost, version: str, *, is_asked: bool) -> JudgedHost:
        """Return a host with its facts. Without a version, these are the ones that have not ended.

        A fact whose versions are not known is one of a host that was asked about, and not of a client that
        gives its version.
        """
        grades = GRADES[: GRADES.index(self.least) + 1]

        def holds(fact: HostFact) -> bool:
            if fact.holds_in is None:
                return is_asked or not version
            return fact.holds_in(version) if version else not fact.has_ended

        label = f"{host.name} {shortened(version)}" if version else host.name
        if not version and not is_asked:
            label += ", whose client does not give its version,"
        facts = tuple(fact for fact in host.facts if fact.grade in grades and holds(fact))
        return JudgedHost(host, host.id if is_asked else self.id_of_seen(host, version), label, facts)

    def id_of_seen(self, host: KnownHost, version: str) -> str:
        """Return what the host whose client is there is called: its id, and its ``version`` if another one of
        it was asked about.
        """
        is_other = any(named is host and asked not in ("", version) for named, asked in self.named)
        return f"{host.id}@{shortened(version)}" if is_other else host.id


def client_of(context: MessageContext, history: History) -> Client | None:
    """Return the client of the session, as it names itself; ``None`` if it was not seen."""
    request = context.answers
    if context.stateless:
        return client_of_request(request) if request is not None else None
    return client_of_session(history)


def client_of_request(request: SentRequest) -> Client | None:
    """Return the client that a stateless request names."""
    return _named(member(request.params, "_meta", CLIENT_INFO_KEY))


def client_of_session(history: History) -> Client | None:
    """Return the client that the handshake names; ``None`` if there was none."""
    opening = history.initialize
    return _named(member(opening.params, "clientInfo")) if opening is not None else None


def _named(info: object) -> Client | None:
    name, version = (info.get("name"), info.get("version")) if isinstance(info, dict) else (None, None)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return (name, version if isinstance(version, str) else "") if isinstance(name, str) else None
