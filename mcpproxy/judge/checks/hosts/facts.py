"""Facts about hosts, and the hosts that a session is judged for.

A *host* is a program with an MCP client in it. A *fact* says what a host does with messages that break no
rule, in which versions of the host, and how this is known. ``ruleset.host_facts`` reads the facts from
``rules/hosts``.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias

from mcpproxy.base.slotted import field, slotted
from mcpproxy.judge.checks.engine.context import MessageContext, shortened
from mcpproxy.judge.session.history import History, SentRequest
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.meta_keys import CLIENT_INFO_KEY

Effect: TypeAlias = Literal["refused", "lost", "changed"]
"""The host refuses the server or a request to its model, loses a part for the model, or changes a part."""

Grade: TypeAlias = Literal["measured", "source", "changelog", "document", "thread"]
"""The evidence for a fact, best first: a run of the host, its source, its changelog, a text by others, or
what users report.
"""

GRADES: Final[tuple[Grade, ...]] = ("measured", "source", "changelog", "document", "thread")

SEEN: Final = "seen"
"""Chosen instead of the name of a host: the host whose client is in the session."""

MAX_CLIENTS: Final = 256
"""How many different clients of one recording have their facts cached."""


@slotted(frozen=True, eq=False)
class HostFact:
    """One fact about a host.

    ``kind`` selects the test that decides which messages the fact is about, and ``settings`` are the limits,
    names and patterns for it. ``says`` is what the host does, as a clause after its name: ``reads the first
    page only``. ``versions`` is the range of versions in which this was seen, and ``holds_in`` tests a
    version; they are empty and ``None`` if the versions are not known. ``has_ended`` is set if newer versions
    are known not to do it. ``evidence`` says in words how and when this was found, ``source`` where it
    can be read. ``survey`` has the numbers of the statements, in a survey of hosts, that the fact rests on.
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
    """One host.

    ``clients`` are the names that only its clients give themselves; ``shared_clients`` are names that clients
    of other hosts use, too. A name that ends in ``*`` stands for all names that begin so. ``tells_version``
    says whether its client gives the version of the host, which is the version that facts are about.
    """

    id: str
    name: str
    clients: tuple[str, ...]
    shared_clients: tuple[str, ...]
    tells_version: bool
    facts: tuple[HostFact, ...]

    def is_client(self, name: str) -> bool:
        """Whether a client with this name is certainly one of this host."""
        return any(name.startswith(own[:-1]) if own.endswith("*") else name == own for own in self.clients)


@slotted(frozen=True, eq=False)
class JudgedHost:
    """A host that a session is judged for, with the facts that apply.

    ``label`` is its name and version in the text of a finding, ``id`` its id in the data of a finding.
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

    ``named`` are the hosts that the user named, each with a version. An empty version stands for the one that
    the session's client gives, if it is a client of the host, and is otherwise unknown. ``known`` are all
    hosts whose client may be in the session, if the user chose ``SEEN``; otherwise it is empty. Facts below
    the grade ``least`` are left out.
    """

    named: tuple[tuple[KnownHost, str], ...] = ()
    known: tuple[KnownHost, ...] = ()
    least: Grade = "source"
    _by_client: dict[Client | None, tuple[JudgedHost, ...]] = field(
        default_factory=dict[Client | None, tuple[JudgedHost, ...]]
    )

    def hosts(self, client: Client | None) -> tuple[JudgedHost, ...]:
        """Return the hosts that a session of ``client`` (``None`` if not known) is judged for."""
        judged = self._by_client.get(client)
        if judged is None:
            judged = tuple(self._hosts_for(client))
            if len(self._by_client) < MAX_CLIENTS:
                self._by_client[client] = judged
        return judged

    def _hosts_for(self, client: Client | None) -> Iterator[JudgedHost]:
        name, client_version = client or ("", "")
        for host, version in self.named:
            gives_version = bool(name) and host.is_client(name) and host.tells_version
            yield self._judged_host(host, version or (client_version if gives_version else ""), is_named=True)
        for host in self.known:
            if name and host.is_client(name):
                yield self._judged_host(host, client_version if host.tells_version else "", is_named=False)

    def _judged_host(self, host: KnownHost, version: str, *, is_named: bool) -> JudgedHost:
        """Return a host with the facts of the chosen grades that apply: without a ``version``, all that have
        not ended.

        A fact whose versions are not known applies if the user named the host, or if the version is empty.
        """
        grades = GRADES[: GRADES.index(self.least) + 1]

        def holds(fact: HostFact) -> bool:
            if fact.holds_in is None:
                return is_named or not version
            return fact.holds_in(version) if version else not fact.has_ended

        label = f"{host.name} {shortened(version)}" if version else host.name
        if not version and not is_named:
            label += ", whose client does not give its version,"
        facts = tuple(fact for fact in host.facts if fact.grade in grades and holds(fact))
        return JudgedHost(host, host.id if is_named else self.id_of_seen(host, version), label, facts)

    def id_of_seen(self, host: KnownHost, version: str) -> str:
        """Return the id, in the data of findings, of the host whose client is in the session.

        Its ``version`` is added if the user named another version of the same host.
        """
        has_other = any(named is host and other not in ("", version) for named, other in self.named)
        return f"{host.id}@{shortened(version)}" if has_other else host.id


def client_of(context: MessageContext, history: History) -> Client | None:
    """Return the client that gets this answer, as it names itself; ``None`` if that was not seen."""
    request = context.answers
    if context.stateless:
        return client_of_request(request) if request is not None else None
    return client_of_session(history)


def client_of_request(request: SentRequest) -> Client | None:
    """Return the client that a stateless request names; ``None`` if it names none."""
    return _client_in(member(request.params, "_meta", CLIENT_INFO_KEY))


def client_of_session(history: History) -> Client | None:
    """Return the client that the handshake names; ``None`` if none was seen, or it names no client."""
    opening = history.initialize
    return _client_in(member(opening.params, "clientInfo")) if opening is not None else None


def _client_in(info: object) -> Client | None:
    name, version = (info.get("name"), info.get("version")) if isinstance(info, dict) else (None, None)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return (name, version if isinstance(version, str) else "") if isinstance(name, str) else None
