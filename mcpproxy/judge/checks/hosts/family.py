"""The family HOST: what hosts (programs with an MCP client) do with messages that break no rule.

``host_checks`` makes the family for the hosts that a user has chosen. Each fact about a host (see ``facts``)
has a kind, and each kind a rule. A message *meets* a fact if the host would do with it what the fact says:
this is reported once per session. Whether a server breaks a rule is decided by other families.
"""

from collections.abc import Iterator
from typing import Final, TypeAlias

from mcpproxy.base.slotted import slotted
from mcpproxy.judge.checks.engine.context import MessageContext, Violation
from mcpproxy.judge.checks.engine.once import Keyed, remember, unreported
from mcpproxy.judge.checks.engine.rows import ANSWERS, Check, EventCheck, RuleFamily, StateUpdate
from mcpproxy.judge.checks.hosts.facts import (
    Client,
    HostChoice,
    HostFact,
    JudgedHost,
    client_of,
    client_of_session,
)
from mcpproxy.judge.checks.hosts.hits import clause, name_tools, sentence
from mcpproxy.judge.checks.hosts.observed import (
    calls_without_token,
    observed_limit,
    observed_pages,
    remember_answered,
    remember_call,
    remember_given_up,
)
from mcpproxy.judge.checks.hosts.pages import (
    PAGED,
    ReadPages,
    UnfinishedReadings,
    left_unread,
    lost_items,
    remember_reading,
)
from mcpproxy.judge.checks.hosts.results import LOSES
from mcpproxy.judge.checks.hosts.tools import MEETS, size_of
from mcpproxy.judge.checks.server.listings import listed as listed_items
from mcpproxy.judge.checks.server.listings import page
from mcpproxy.judge.checks.stateless.servers import server_of
from mcpproxy.judge.session.frame import CLIENT, SERVER, Close, Signal
from mcpproxy.judge.session.history import History
from mcpproxy.protocol.jsonrpc import ABSENT, JSON, ErrorResponse, JSONObject, Notification, Request, Response
from mcpproxy.protocol.message_parts import as_object, member, target_of
from mcpproxy.protocol.methods import OPENINGS
from mcpproxy.protocol.wording import seconds, shown, token

RULES: Final[dict[str, tuple[str, str]]] = {
    "name-length": ("HOST-001", "X-027"),
    "name-characters": ("HOST-002", "X-028"),
    "name-collision": ("HOST-003", "X-029"),
    "argument-name": ("HOST-004", "X-030"),
    "tool-count": ("HOST-005", "X-031"),
    "text-length": ("HOST-006", "X-032"),
    "pages": ("HOST-007", "X-033"),
    "keyword-refused": ("HOST-008", "X-034"),
    "keyword-dropped": ("HOST-009", "X-035"),
    "schema-shape": ("HOST-010", "X-036"),
    "dialect": ("HOST-011", "X-037"),
    "result-size": ("HOST-012", "X-038"),
    "content-dropped": ("HOST-013", "X-039"),
    "structured-content": ("HOST-014", "X-040"),
    "start-time": ("HOST-015", "X-041"),
    "answer-time": ("HOST-016", "X-042"),
    "nothing-offered": ("HOST-017", "X-043"),
    "server-request": ("HOST-018", "X-044"),
    "extension-undeclared": ("HOST-019", "X-045"),
    "tool-hidden": ("HOST-020", "X-046"),
    "wider-schema": ("HOST-021", "X-047"),
}
"""The rule and the requirement of each kind of fact."""


@slotted(frozen=True)
class FactMet:
    """A fact that a message meets, of a host that the session is judged for.

    ``pointer`` is the JSON Pointer of the part that meets it, ``met`` describes that part. ``about`` differs
    for different findings from the same fact.
    """

    judged: JudgedHost
    fact: HostFact
    pointer: str
    met: str
    about: str

    @property
    def key(self) -> tuple[int, str]:
        """The key of the finding: equal findings of one session have equal keys."""
        return id(self.fact), self.about

    def violation(
        self,
        frame: int | None = None,
        candidates: tuple[str, ...] | None = None,
        *,
        is_doubtful: bool = False,
    ) -> Violation:
        """Return the violation to report: at most an info if it ``is_doubtful`` or the host only changes a
        part.

        The effect in the data of a doubtful one is ``perhaps``. ``frame`` and ``candidates`` are those of
        ``Violation``.
        """
        rule, requirement = RULES[self.fact.kind]
        return Violation(
            rule,
            requirement,
            sentence(self.judged, self.fact, self.met),
            pointer=self.pointer,
            blame=SERVER,
            at_most="info" if is_doubtful or self.fact.effect == "changed" else None,
            frame=frame,
            candidates=candidates,
            data={
                "host": self.judged.id,
                "effect": "perhaps" if is_doubtful else self.fact.effect,
                "says": self.fact.says,
                "reason": clause(self.fact, self.met),
            },
        )


def host_checks(choice: HostChoice | None) -> RuleFamily:
    """Return a family that reports what the chosen hosts do; without a choice, it reports nothing."""

    def listed_tools(context: MessageContext, history: History) -> Iterator[Violation]:
        """Report what hosts do with the tools of a page (HOST-001 to HOST-006, HOST-008 to HOST-011,
        HOST-019 to HOST-021).
        """
        return _unreported_violations(_met_by_tools(choice, context, history), history)

    def pages(context: MessageContext, history: History) -> Iterator[Violation]:
        """Report pages of a list that hosts do not read (HOST-007)."""
        return _unreported_violations(_met_by_pages(choice, context, history), history)

    def unread_pages(event: Signal | Close, history: History) -> Iterator[Violation]:
        """Report pages of unfinished lists that hosts, or else this client, leave unread (HOST-007)."""
        if choice is None or not isinstance(event, Close):
            return
        for (caller, *_), reading in history.across_requests(UnfinishedReadings).readings.items():
            violations = list(_met_by_unread(choice, reading))
            yield from unreported("HOST", violations, history, caller)
            if not violations and event.ending != "cut" and not history.has_gap:
                observed = observed_pages(choice, caller, reading, history)
                yield from () if observed is None else (observed,)

    def call_limit(event: Signal | Close, history: History) -> Iterator[Violation]:
        """Report the time after which the session's client gives up calls (HOST-016)."""
        if choice is not None and isinstance(event, Close):
            yield from observed_limit(choice, history)

    def no_token(event: Signal | Close, history: History) -> Iterator[Violation]:
        """Report that the session's client sends no progressToken (HOST-022)."""
        if choice is not None and isinstance(event, Close):
            yield from calls_without_token(choice, history)

    def call_results(context: MessageContext, history: History) -> Iterator[Violation]:
        """Report what hosts do with the result of a call (HOST-012, HOST-013, HOST-014)."""
        return _unreported_violations(_met_by_result(choice, context, history), history)

    def opening_result(context: MessageContext, history: History) -> Iterator[Violation]:
        """Report what hosts do with the instructions and capabilities of a server (HOST-006, HOST-017)."""
        return _unreported_violations(_met_by_opening(choice, context, history), history)

    def slow_answers(context: MessageContext, history: History) -> Iterator[Violation]:
        """Report answers that came later than hosts wait (HOST-015, HOST-016)."""
        return _unreported_violations(_met_by_time(choice, context, history), history)

    def server_requests(context: MessageContext, history: History) -> Iterator[Violation]:
        """Report requests of the server that hosts do not accept (HOST-018)."""
        return _unreported_violations(_met_by_request(choice, context, history), history)

    def remember_reported(context: MessageContext, history: History) -> None:
        """Record the findings as reported. This runs before ``remember_reading`` records the page."""
        for facts_met_by in (
            _met_by_tools,
            _met_by_pages,
            _met_by_result,
            _met_by_opening,
            _met_by_time,
            _met_by_request,
        ):
            remember("HOST", _keyed_violations(facts_met_by(choice, context, history)), history)

    tool_rules = tuple(RULES[kind][0] for kind in (*MEETS, "tool-count", "extension-undeclared"))
    result_rules = tuple(RULES[kind][0] for kind in LOSES)
    return RuleFamily(
        checks=(
            Check(tool_rules, listed_tools, (Response,), ("tools/list",), sender=SERVER),
            Check(("HOST-007",), pages, (Response,), PAGED, sender=SERVER),
            Check(result_rules, call_results, (Response,), ("tools/call",), sender=SERVER),
            Check(("HOST-006", "HOST-017"), opening_result, (Response,), OPENINGS, sender=SERVER),
            Check(("HOST-015", "HOST-016"), slow_answers, ANSWERS, sender=SERVER),
            Check(("HOST-018",), server_requests, (Request,), sender=SERVER),
        ),
        events=(
            EventCheck(("HOST-007",), unread_pages, across_requests=True),
            EventCheck(("HOST-016",), call_limit),
            EventCheck(("HOST-022",), no_token, across_requests=True),
        ),
        updates=(
            StateUpdate(remember_reported, (Request, *ANSWERS), sender=SERVER),
            StateUpdate(remember_reading, (Response,), PAGED, sender=SERVER),
            StateUpdate(remember_call, ANSWERS, ("tools/call",), sender=SERVER),
            StateUpdate(remember_answered, ANSWERS, sender=SERVER),
            StateUpdate(remember_given_up, (Notification,), ("notifications/cancelled",), sender=CLIENT),
        )
        if choice is not None
        else (),
    )


FactsMet: TypeAlias = Iterator[FactMet]


def _unreported_violations(facts_met: FactsMet, history: History) -> Iterator[Violation]:
    return unreported("HOST", _keyed_violations(facts_met), history)


def _keyed_violations(facts_met: FactsMet) -> Keyed:
    return ((met.key, met.violation()) for met in facts_met)


def _judged_hosts(
    choice: HostChoice | None, context: MessageContext, history: History
) -> tuple[JudgedHost, ...]:
    return choice.hosts(client_of(context, history)) if choice is not None else ()


def _absent_hosts(choice: HostChoice | None, context: MessageContext, history: History) -> list[JudgedHost]:
    """Return the judged hosts whose client is not in the session.

    If a host's own client is in the session, the session itself shows what it reads and how long it waits.
    """
    client = client_of(context, history)
    return [judged for judged in _judged_hosts(choice, context, history) if not _is_host_of(judged, client)]


def _is_host_of(judged: JudgedHost, client: Client | None) -> bool:
    return client is not None and judged.host.is_client(client[0])


def _facts_of_kind(judged: JudgedHost, *kinds: str) -> Iterator[HostFact]:
    return (fact for fact in judged.facts if fact.kind in kinds)


def _is_answer_to(context: MessageContext, *methods: str) -> bool:
    return isinstance(context.message, Response) and context.method in methods


def _met_by_tools(choice: HostChoice | None, context: MessageContext, history: History) -> FactsMet:
    """Yield the facts that the tools of a page meet and, on the last page, the number of all tools."""
    if choice is None or not _is_answer_to(context, "tools/list"):
        return
    tools_page = page(context, history)
    if tools_page is None:
        return
    tools, at = tools_page.items, f"{context.at}/result/tools"
    is_only_page = tools_page.next_cursor is None and not tools_page.walk.items
    tools_text = f"your {len(tools):,} tools" if is_only_page else f"the {len(tools):,} tools of this page"
    for judged in _judged_hosts(choice, context, history):
        for fact in judged.facts:
            if (find_hits := MEETS.get(fact.kind)) is not None:
                if fact.settings.get("of") == "instructions":
                    continue
                if hits := list(find_hits(fact.settings, tools)):
                    about = " ".join(f"{hit.name!r}" for hit in hits)
                    yield FactMet(judged, fact, at + hits[0].pointer, name_tools(hits, tools_text), about)
            elif fact.kind == "tool-count":
                number = len(tools_page.names_so_far())
                if tools_page.next_cursor is None and number > fact.settings["limit"]:
                    yield FactMet(judged, fact, at, f"you list {number:,}", "")
            elif fact.kind == "extension-undeclared":
                name, key = fact.settings["extension"], fact.settings["key"]
                with_key = [row for row in tools if key in (as_object(row[2].get("_meta")) or {})]
                capabilities = _capabilities(context, history)
                if (
                    with_key
                    and capabilities is not None
                    and member(capabilities, "extensions", name) in (None, ABSENT)
                ):
                    index, tool, _ = with_key[0]
                    met = f"tool {shown(tool)} has it, and your capabilities lack extensions[{shown(name)}]"
                    yield FactMet(judged, fact, f"{at}/{index}/_meta{token(key)}", met, "")


def _capabilities(context: MessageContext, history: History) -> JSONObject | None:
    """Return the capabilities that the server has declared; ``None`` if they are not known."""
    if not context.stateless:
        return history.server_capabilities
    discovered = server_of(history).discovered
    return discovered.capabilities if discovered is not None else None


def _met_by_pages(choice: HostChoice | None, context: MessageContext, history: History) -> FactsMet:
    if not _is_answer_to(context, *PAGED):
        return
    for judged in _absent_hosts(choice, context, history):
        for fact in _facts_of_kind(judged, "pages"):
            lost = lost_items(context, history, fact.settings["pages"])
            if lost is not None and lost[0] in fact.settings["lists"]:
                yield FactMet(judged, fact, context.at + "/result", lost[1], lost[0])


def _met_by_unread(choice: HostChoice, reading: ReadPages) -> Keyed:
    """Yield the violations of facts about pages, for a list whose last page was not read."""
    for judged in choice.hosts(reading.client):
        if _is_host_of(judged, reading.client) and len(reading.counts) > 1:
            continue  # This client has read more than one page, so the fact does not hold for it.
        for fact in _facts_of_kind(judged, "pages"):
            if reading.method not in fact.settings["lists"]:
                continue
            if met := left_unread(reading, fact.settings["pages"]):
                fact_met = FactMet(judged, fact, "/result/nextCursor", met, reading.method)
                yield fact_met.key, fact_met.violation(reading.seq, reading.candidates)


def _met_by_result(choice: HostChoice | None, context: MessageContext, history: History) -> FactsMet:
    if not _is_answer_to(context, "tools/call") or context.answers is None:
        return
    result = as_object(member(context.message.value, "result"))
    tool = target_of("tools/call", context.answers.params)
    if result is None:
        return
    for judged in _judged_hosts(choice, context, history):
        for fact in judged.facts:
            find_lost_part = LOSES.get(fact.kind)
            if find_lost_part is None or _is_excepted(fact, tool, result, history):
                continue
            if (lost := find_lost_part(fact.settings, result)) is not None:
                met = f"{lost[1]}, from tool {shown(tool)}" if tool is not None else lost[1]
                yield FactMet(judged, fact, f"{context.at}/result{lost[0]}", met, repr(tool))


def _is_excepted(fact: HostFact, tool: str | None, result: JSONObject, history: History) -> bool:
    """Whether the result or the tool has the ``_meta`` key for which the fact makes an exception."""
    key = fact.settings.get("unless")
    if not key:
        return False
    item = listed_items(history, "tools/list").items.get(tool) if tool is not None else None
    holders = (result.get("_meta"), item.value.get("_meta") if item is not None else None)
    return any(isinstance(holder, dict) and key in holder for holder in holders)


def _met_by_opening(choice: HostChoice | None, context: MessageContext, history: History) -> FactsMet:
    if not _is_answer_to(context, *OPENINGS):
        return
    result: JSON = member(context.message.value, "result")  # pyright: ignore[reportAssignmentType]
    declared, instructions = as_object(member(result, "capabilities")), member(result, "instructions")
    for judged in _judged_hosts(choice, context, history):
        for fact in judged.facts:
            if fact.kind == "text-length" and fact.settings["of"] == "instructions":
                size = size_of(instructions, fact.settings["unit"]) if isinstance(instructions, str) else 0
                if size > fact.settings["limit"]:
                    met = f"your instructions have {size:,} {fact.settings['unit']}"
                    yield FactMet(judged, fact, context.at + "/result/instructions", met, "instructions")
            elif (
                fact.kind == "nothing-offered"
                and declared is not None
                and not any(name in declared for name in fact.settings["needs"])
            ):
                met = f"you declare {', '.join(map(shown, declared)) or 'none'}"
                yield FactMet(judged, fact, context.at + "/result/capabilities", met, "capabilities")


def _met_by_time(choice: HostChoice | None, context: MessageContext, history: History) -> FactsMet:
    request = context.answers
    if request is None:
        return
    select_hosts = _judged_hosts if request.cancelled else _absent_hosts
    for judged in select_hosts(choice, context, history):
        for fact in _facts_of_kind(judged, "start-time", "answer-time"):
            taken_ns = context.frame.observed_at_ns - request.sent_ns
            if fact.settings["over"] == "http" and not history.over_http:
                continue
            if request.method == "server/discover" and isinstance(context.message, ErrorResponse):
                continue  # The refusal shows that the server has a handshake, and the host then begins that.
            if (
                request.method in fact.settings["methods"]
                and taken_ns > fact.settings["limit"] * 1_000_000_000
            ):
                tool = target_of(request.method, request.params) if request.method == "tools/call" else None
                what = f"tool {shown(tool)}" if tool is not None else request.method
                yield FactMet(judged, fact, context.at, f"{what} took {seconds(taken_ns)}", what)


def _met_by_request(choice: HostChoice | None, context: MessageContext, history: History) -> FactsMet:
    message = context.message
    if choice is None or not isinstance(message, Request):
        return
    for judged in choice.hosts(client_of_session(history)):
        for fact in _facts_of_kind(judged, "server-request"):
            if message.method in fact.settings["methods"]:
                met = f"you sent {message.method}"
                yield FactMet(judged, fact, context.at + "/method", met, message.method)


FAMILY: Final = host_checks(None)
