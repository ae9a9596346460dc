"""Find what only several recordings of one run show: lookalike names, crossing secrets, too many tools.

A recording has one server. A run comprises the recordings of all servers that one client used together (see
``mcpproxy.read.view.runs``). While a recording is judged, ``SeenInRecording`` collects what must be compared
with the other recordings of its run.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from mcpproxy.judge.checks.engine.context import Violation
from mcpproxy.judge.checks.engine.rows import RuleFamily
from mcpproxy.judge.checks.security import lookalikes, secrets
from mcpproxy.judge.checks.security.lookalikes import SeenName, skeleton
from mcpproxy.judge.checks.security.secrets import SeenSecret
from mcpproxy.judge.checks.server.definitions import visible
from mcpproxy.judge.observer.findings import FindingBuilder
from mcpproxy.judge.session.frame import CLIENT, SERVER, Finding, Severity
from mcpproxy.protocol.revisions import REVISIONS
from mcpproxy.protocol.rules import Catalogue
from mcpproxy.protocol.wording import shown
from mcpproxy.read.view.folder import recording
from mcpproxy.read.view.recording_entry import RecordingEntry
from mcpproxy.read.view.runs import Certainty, ClientRun, runs

if TYPE_CHECKING:  # most runs are not about hosts
    from mcpproxy.judge.checks.hosts.facts import HostChoice
    from mcpproxy.judge.checks.hosts.runs import ListedTools

LOOKALIKE: Final = "SEC-009"
CROSSING: Final = "SEC-008"
"""The codes of the rules about lookalike names, and about secrets that cross servers."""

_MOST_NAMES: Final = 10_000
_MOST_SECRETS: Final = 10_000
"""How many names of tools, and how many secrets, of one recording are compared."""


@dataclass(slots=True)
class SeenInRecording:
    """The names of the tools in one recording, the secrets in its messages, and its latest list of tools."""

    names: dict[str, SeenName] = field(default_factory=dict[str, SeenName])
    secrets: list[SeenSecret] = field(default_factory=list[SeenSecret])
    tools: "ListedTools | None" = None
    """The latest list of tools that was read to its end, if the user named hosts."""

    def add_tools(self, seen: "ListedTools") -> None:
        self.tools = seen

    def add_name(self, seen: SeenName) -> None:
        if len(self.names) < _MOST_NAMES:
            self.names.setdefault(seen.name, seen)

    def add_secret(self, seen: SeenSecret) -> None:
        if len(self.secrets) < _MOST_SECRETS:
            self.secrets.append(seen)

    @property
    def has_some(self) -> bool:
        """Whether there is anything to compare."""
        return bool(self.names or self.secrets or self.tools)

    def taken(self) -> "SeenInRecording":
        """Return what was collected, and forget it."""
        collected = SeenInRecording(self.names, self.secrets, self.tools)
        self.names, self.secrets, self.tools = {}, [], None
        return collected


def collectors(
    seen: SeenInRecording, takes: Callable[[str], bool], key: bytes, hosts: "HostChoice | None" = None
) -> Iterator[RuleFamily]:
    """Yield rule families that add to ``seen``, for the rules that ``takes`` accepts.

    ``key`` is for the digests of secrets (see ``secrets.collector``). ``hosts`` are those the user named.
    """
    if takes(LOOKALIKE):
        yield lookalikes.collector(seen.add_name)
    if takes(CROSSING):
        yield secrets.collector(seen.add_secret, key)
    if hosts is not None:
        from mcpproxy.judge.checks.hosts import runs as tools_of_runs

        if takes(tools_of_runs.TOO_MANY):
            yield tools_of_runs.collector(seen.add_tools)


def across_servers(
    seen: Mapping[str, SeenInRecording], catalogue: Catalogue, hosts: "HostChoice | None" = None
) -> Iterator[tuple[str, tuple[Finding, ...]]]:
    """Yield the path of each recording with its findings that need other recordings of its run.

    ``seen`` has what was collected from each recording, by path. ``hosts`` are those the user named.
    Recordings without findings are left out.
    """
    build = FindingBuilder(catalogue)
    findings_of: dict[str, list[Finding]] = defaultdict(list)
    entries = [recording(path) for path, content in seen.items() if content.has_some]
    for run in runs(entry for entry in entries if entry.state != "unreadable"):
        of_run = (*_lookalikes(run, seen), *_crossings(run, seen), *_too_many(run, seen, hosts))
        for entry, seq, violation, revisions in of_run:
            sender = CLIENT if violation.rule == CROSSING else SERVER
            findings_of[entry.path] += build([violation], seq, sender, revisions)
    for path, findings in findings_of.items():
        yield path, tuple(sorted(findings, key=lambda finding: finding.frame))


_FoundViolation = tuple[RecordingEntry, int, Violation, tuple[str, ...]]
"""The recording, the frame, the violation, and the revisions to judge by."""


def _lookalikes(run: ClientRun, seen: Mapping[str, SeenInRecording]) -> Iterator[_FoundViolation]:
    """Yield the tools whose names look like that of a tool of another server in the run."""
    alike: dict[str, list[tuple[RecordingEntry, SeenName]]] = defaultdict(list)
    for entry in run.entries:
        for name in _seen_in(seen, entry).names.values():
            alike[skeleton(name.name)].append((entry, name))
    for tools in alike.values():
        if len({name.name for _, name in tools}) == 1:
            continue
        for index, (entry, name) in enumerate(tools):
            for other_index, (other_entry, other) in enumerate(tools):
                if _is_lookalike((entry, name), (other_entry, other), is_earlier=other_index < index):
                    problem = (
                        f"server listed tool {_spelled(name.name)}, which looks like {_spelled(other.name)} "
                        f"of {_server_words(other_entry)} in the same run{_doubt_words(run)}"
                    )
                    violation = Violation(
                        LOOKALIKE, "X-021", problem, pointer=name.pointer, at_most=_severity_limit(run)
                    )
                    yield entry, name.seq, violation, name.revisions
                    break


def _is_lookalike(
    tool: tuple[RecordingEntry, SeenName], other: tuple[RecordingEntry, SeenName], *, is_earlier: bool
) -> bool:
    """Whether ``tool`` must be reported for its likeness to ``other``, a tool of another server.

    One of the two names is reported: that with unusual characters, or the later one if both have some.
    """
    (entry, name), (other_entry, other_name) = tool, other
    if name.name == other_name.name or name.name.isascii() or _is_same_server(entry, other_entry):
        return False
    return other_name.name.isascii() or is_earlier


def _crossings(run: ClientRun, seen: Mapping[str, SeenInRecording]) -> Iterator[_FoundViolation]:
    """Yield the secrets that a client got from one server and later sent to another."""
    by_digest: dict[bytes, list[tuple[int, RecordingEntry, SeenSecret]]] = defaultdict(list)
    for entry in run.entries:
        for secret in _seen_in(seen, entry).secrets:
            by_digest[secret.digest].append((entry.started_ns + secret.observed_ns, entry, secret))
    for places in by_digest.values():
        _, origin, first = min(places, key=lambda place: place[0])
        if first.sender != SERVER:
            continue  # the client had it before
        handled: list[RecordingEntry] = [origin]
        for _, entry, secret in sorted(places, key=lambda place: place[0]):
            if any(_is_same_server(entry, earlier) for earlier in handled):
                continue
            handled.append(entry)
            if secret.sender == CLIENT:
                problem = (
                    f"client put {secret.kind} into {secret.place} that it had from "
                    f"{_server_words(origin)}, in {first.place} (frame {first.seq}){_doubt_words(run)}"
                )
                violation = Violation(
                    CROSSING, "X-020", problem, pointer=secret.pointer, at_most=_severity_limit(run)
                )
                yield entry, secret.seq, violation, REVISIONS


def _too_many(
    run: ClientRun, seen: Mapping[str, SeenInRecording], hosts: "HostChoice | None"
) -> Iterator[_FoundViolation]:
    """Yield the limits of hosts that the tools of all servers in the run exceed together."""
    if hosts is None or run.certainty is Certainty.LIKELY:  # likely: not open at the same time
        return
    listed: list[tuple[RecordingEntry, ListedTools]] = []
    for entry in run.entries:
        tools = _seen_in(seen, entry).tools
        if tools is not None:
            listed = [
                (other, list_of_other) for other, list_of_other in listed if not _is_same_server(other, entry)
            ]
            listed.append((entry, tools))
    if len(listed) < 2:
        return
    from mcpproxy.judge.checks.hosts.runs import too_many_together

    for tools, violation in too_many_together(hosts, [tools for _, tools in listed], _doubt_words(run)):
        entry = next(entry for entry, tools_of_entry in listed if tools_of_entry is tools)
        yield entry, tools.seq, violation, tools.revisions


def _seen_in(seen: Mapping[str, SeenInRecording], entry: RecordingEntry) -> SeenInRecording:
    return seen.get(entry.path) or SeenInRecording()


def _is_same_server(one: RecordingEntry, other: RecordingEntry) -> bool:
    """Whether two recordings are, or may be, of the same server."""
    if one.path == other.path or (one.server and one.server == other.server):
        return True
    return (one.command, one.upstream) == (other.command, other.upstream) != ((), "")


def _server_words(entry: RecordingEntry) -> str:
    return f"server {shown(entry.server or entry.label)}"


def _spelled(name: str) -> str:
    """Return a quoted name, followed by the first code points of its characters beyond ASCII."""
    unusual = " ".join(f"U+{ord(character):04X}" for character in name if not character.isascii())
    return f"{visible(shown(name))} ({unusual[:60]})" if unusual else shown(name)


def _doubt_words(run: ClientRun) -> str:
    return "" if run.certainty is Certainty.CERTAIN else f" ({run.certainty}: {run.why})"


def _severity_limit(run: ClientRun) -> Severity | None:
    """Return ``info``, the highest severity of findings in an uncertain run; ``None`` if it is certain."""
    return None if run.certainty is Certainty.CERTAIN else "info"
