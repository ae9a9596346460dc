"""Read fault rules from a TOML file, or from one line for each rule.

    seed = 7

    [[rule]]
    name = "slow search"
    match = "from:server kind:answer tool:search*"
    nth = "2-4"
    do = {delay = "2s", jitter = "500ms"}

``--fault 'from:server kind:answer tool:search* => delay 2s, jitter 500ms, nth 2-4, name slow search'`` is the
same rule. ``match`` is a filter in the language of ``mcpproxy show``, applied to one message.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, cast

from mcpproxy.base import files
from mcpproxy.base.patterns import pattern
from mcpproxy.base.slotted import slotted
from mcpproxy.errors import nearest
from mcpproxy.gate.intercept.fault_actions import (
    ANSWERS_OVER_HTTP,
    FROM_CLIENTS,
    ONLY_HTTP,
    OVER_HTTP,
    WITHOUT_MESSAGE,
    FaultAction,
    FaultRuleError,
    read_action,
)
from mcpproxy.gate.intercept.fault_sets import names, path_of
from mcpproxy.gate.intercept.message_facts import FINDING_KEYS
from mcpproxy.judge.session.filter import Filter, FilterError, Key, parse_filter
from mcpproxy.judge.session.frame import CLIENT, SERVER, Sender, other

MATCHABLE: Final[tuple[Key, ...]] = (
    "from", "kind", "method", "tool", "prompt", "resource", "target", "id", "status", "code", "bytes", "text",
    "rule", "severity",
)  # fmt: skip
"""The filter keys that apply to one message. The others of ``show`` are about a whole call, a session or a
place in a recording."""

_MEMBERS: Final = ("name", "on", "match", "nth", "every", "after", "percentage", "limit", "do")
"""The members of a rule."""
_KINDS: Final = ("request", "answer", "notification", "not-a-message", "http")
"""The values that ``kind:`` may have in a rule; ``show`` knows more."""
_SPANS: Final = pattern(r"\d+(?:-\d+)?(?:,\s*\d+(?:-\d+)?)*")
"""A value of ``nth``: numbers, and ranges of numbers, between commas."""
_WORD: Final = pattern(r"\s*([A-Za-z]+(?:-[a-z]+)*)\s*(?:\s|=|$)\s*")
"""The name of an action or a parameter, and the separator before its value."""
_ARROW: Final = "=>"
_EXAMPLE: Final = "--fault 'from:server tool:search* => delay 2s, nth 3'"
_FILE_BYTES: Final = 1 << 20
"""The largest file of rules that is read."""


@slotted(frozen=True)
class FaultRule:
    """A rule: which action happens to which messages.

    The messages that match are counted from 1, per session and direction. The rule acts on the messages whose
    number is in one of ``spans`` (pairs of first and last number); without spans, on every ``every``-th
    message after the first ``after``. Of these it acts on ``percentage`` percent, at random, and at most
    ``limit`` times there (0: no limit).
    """

    name: str
    match: Filter
    action: FaultAction
    spans: tuple[tuple[int, int], ...] = ()
    every: int = 1
    after: int = 0
    percentage: float = 100.0
    limit: int = 0
    on: str = ""
    """The only transport on which it acts, ``stdio`` or ``http``; empty for both."""

    @property
    def is_breakpoint(self) -> bool:
        """Whether it holds messages until somebody decides what becomes of them."""
        return self.action.verb == "pause"

    @property
    def asks_for_findings(self) -> bool:
        """Whether messages have to be judged to decide whether they match."""
        return any(term.key in FINDING_KEYS for term in self.match.terms)


@slotted(frozen=True)
class FaultRules:
    """All rules of a session, in order, and the seed of their random numbers.

    ``digest`` is the SHA-256, in hexadecimal, of the rules' text and of the addons' files.
    """

    rules: tuple[FaultRule, ...]
    seed: int
    digest: str
    addons: tuple[str, ...] = ()
    """The files or names of the addons."""

    @property
    def ask_for_findings(self) -> bool:
        """Whether messages have to be judged before they are forwarded."""
        return any(rule.asks_for_findings for rule in self.rules)

    @property
    def have_breakpoints(self) -> bool:
        """Whether a rule holds messages until somebody decides what becomes of them."""
        return any(rule.is_breakpoint for rule in self.rules)

    @property
    def summary(self) -> str:
        """The text about the rules in the header of the recording."""
        names = ", ".join((*(rule.name for rule in self.rules), *(f"addon {name}" for name in self.addons)))
        return f"seed {self.seed}; rules sha256:{self.digest}; {names}"

    @property
    def greeting(self) -> str:
        """The text about the rules that is written to stderr at the start."""
        faults = f"faults by seed {self.seed}" if self.rules else ""
        addons = f"addons {', '.join(self.addons)}" if self.addons else ""
        return "; ".join(filter(None, (faults, addons)))


def read_faults(
    files: Iterable[str],
    specs: Iterable[str],
    transport: str,
    seed: int | None = None,
    addons: Sequence[str] = (),
    breakpoints: Iterable[FaultRule] = (),
) -> FaultRules:
    """Read the rules of ``--faults`` (``files``) and ``--fault`` (``specs``).

    With ``addons``, the files or names of addons, there may be no rule at all. ``seed`` takes precedence over
    the seed in a file; without both, the seed is random. ``transport`` is ``stdio`` or ``http``.
    ``breakpoints`` are rules that were read already; they come before the rules of ``specs``.

    Raises:
        FaultRuleError: a file or a rule cannot be read, two rules have the same name, no rule is for this
            transport, or a rule cannot be used on it.
    """
    rules: list[FaultRule] = []
    digest = hashlib.sha256()
    file_seed: int | None = None
    for name in files:
        path = path_of(name)
        content = _read_content(path)
        digest.update(b"file %d\n" % len(content) + content)
        file_rules, own_seed = _rules_in(path, content, len(rules))
        rules += file_rules
        file_seed = own_seed if own_seed is not None else file_seed
    for rule in breakpoints:
        digest.update(f"break {rule.name} {rule.match.text} {rule.action}\n".encode())
        rules.append(rule)
    for text in specs:
        digest.update(b"spec %d\n" % len(text.encode()) + text.encode())
        rules.append(_rule_of_spec(text, len(rules) + 1))
    others = [rule for rule in rules if rule.on not in ("", transport)]
    rules = [rule for rule in rules if rule.on in ("", transport)]
    for name in addons:
        content = _read_content(name) if os.path.isfile(name) else b""
        digest.update(b"addon %d\n" % len(content) + content)
    if not rules and (others or not addons):
        fact = f"all rules are for {others[0].on if others else 'nothing'}, and this is {transport}"
        raise FaultRuleError(fact, "name other rules", "faults")
    for rule in rules:
        _refuse_unfit(rule, transport)
    rule_names = [rule.name for rule in rules]
    if twice := next((name for name in rule_names if rule_names.count(name) > 1), None):
        raise FaultRuleError(f"two rules have the name {twice}", "name each differently", "faults")
    if seed is None:
        seed = file_seed if file_seed is not None else int.from_bytes(os.urandom(4), "big")
    return FaultRules(tuple(rules), seed, digest.hexdigest(), tuple(addons))


def about(name: str) -> str:
    """Return the description (``about``) in a file of rules or a ready-made set; empty if there is none.

    Raises:
        FaultRuleError: the file cannot be read.
        ValueError: the file is not TOML in UTF-8.
    """
    import tomli

    members: dict[str, object] = tomli.loads(_read_content(path_of(name)).decode("utf-8"))
    return str(members.get("about", ""))


def transports_of(name: str) -> tuple[str, ...]:
    """Return the transports that the ``on`` of at least one rule of a file, or of a ready-made set, allows.

    Raises:
        FaultRuleError: the file cannot be read, or has a rule that cannot be used.
    """
    rules, _ = _rules_in(name, _read_content(path_of(name)), 0)
    return tuple(
        transport for transport in ("stdio", "http") if any(rule.on in ("", transport) for rule in rules)
    )


def _read_content(path: str) -> bytes:
    try:
        return files.read(path, _FILE_BYTES, follows=True)
    except OSError as error:
        if guess := nearest(path, names()):
            raise FaultRuleError("no such faults", f"did you mean {guess}?", path) from None
        fact = f"cannot be read ({error.strerror or error})"
        raise FaultRuleError(fact, "name a file of fault rules, or one of faults list", path) from None


def _rules_in(path: str, content: bytes, count: int) -> tuple[list[FaultRule], int | None]:
    """Return the rules in a file, and its seed, ``None`` if it has none.

    ``count`` is how many rules were read before it; the numbers in default names go on from there.
    """
    import tomli

    try:
        members: dict[str, object] = tomli.loads(content.decode("utf-8"))
    except UnicodeDecodeError:
        raise FaultRuleError("the file is not UTF-8", "save it as UTF-8", path) from None
    except tomli.TOMLDecodeError as fault:
        raise FaultRuleError(f"not TOML ({fault})", "correct it", path) from None
    for name in members:
        if name not in ("about", "seed", "rule"):
            raise FaultRuleError(f"there is no {name}", "a file has about, seed and [[rule]]", path)
    tables, seed = members.get("rule", []), members.get("seed")
    if seed is not None and type(seed) is not int:
        raise FaultRuleError(f"seed = {json.dumps(seed, default=str)} is not a number", "write one", path)
    if not isinstance(tables, list) or not tables:
        raise FaultRuleError("no rules", "begin each with [[rule]]", path)
    rules: list[FaultRule] = []
    lines = _rule_lines(content)
    for index, table in enumerate(cast("list[object]", tables)):
        place = f"{path}:{lines[index]}" if len(lines) == len(cast("list[object]", tables)) else path
        try:
            if not isinstance(table, dict):
                raise FaultRuleError("a rule that is not a table", "begin each with [[rule]]")
            rules.append(rule_of(cast("dict[str, object]", table), count + index + 1))
        except FaultRuleError as fault:
            name = cast("dict[str, object]", table).get("name") if isinstance(table, dict) else None
            fact = f"rule {name}: {fault.fact}" if isinstance(name, str) else fault.fact
            raise FaultRuleError(fact, fault.next_step, place) from None
    return rules, seed


def _rule_lines(content: bytes) -> list[int]:
    """Return the numbers, from 1, of the lines at which the tables of the rules begin."""
    lines = content.decode("utf-8").splitlines()
    return [number for number, line in enumerate(lines, 1) if line.replace(" ", "").startswith("[[rule]]")]


def _rule_of_spec(text: str, number: int) -> FaultRule:
    """Return the rule that one line describes: ``FILTER => ACTION VALUE, NAME VALUE, ...``."""
    try:
        wanted, arrow, words = text.partition(_ARROW)
        if not arrow:
            raise FaultRuleError(f"{text!r} has no =>", f"write FILTER => ACTION: {_EXAMPLE}")
        rule: dict[str, object] = {"match": wanted.strip()}
        do: dict[str, object] = {}
        for part in _parts(words):
            match = _WORD.match(part)
            if match is None:
                raise FaultRuleError(f"cannot read {part.strip()!r}", f"write it as in {_EXAMPLE}")
            name, value = match[1], part[match.end() :].strip()
            members = rule if name in _MEMBERS else do
            if name in members:
                raise FaultRuleError(f"{name} twice", "leave one out")
            members[name] = _value(name, value)
        return rule_of({**rule, "do": do}, number)
    except FaultRuleError as fault:
        raise FaultRuleError(fault.fact, fault.next_step, "--fault") from None


def _parts(text: str) -> list[str]:
    """Split at commas outside quotation marks and brackets; a comma before a digit does not split."""
    parts, depth, quoted, escaped = [""], 0, False, False
    for index, char in enumerate(text):
        if quoted:
            quoted, escaped = escaped or char != '"', not escaped and char == "\\"
        elif char == '"':
            quoted = True
        elif char in "{[":
            depth += 1
        elif char in "}]":
            depth -= 1
        elif char == "," and not depth and not text[index + 1 :].lstrip()[:1].isdigit():
            parts.append("")
            continue
        parts[-1] += char
    return [part for part in parts if part.strip()]


def _value(name: str, text: str) -> object:
    """Return the value of a parameter: ``True`` if it is empty, what JSON means, else the text.

    ``nth`` and ``name`` are never read as JSON. A percent sign at the end is left out.
    """
    if not text:
        return True
    if name in ("nth", "name"):
        return text
    if text.endswith("%"):
        text = text[:-1]
    try:
        value: object = json.loads(text)
    except ValueError:
        return text
    return value


def rule_of(members: Mapping[str, object], number: int) -> FaultRule:
    """Return the rule that ``members`` describe. Without a name, it is named by its ``number``.

    Raises:
        FaultRuleError: they describe no rule. The error names no place.
    """
    for name in members:
        if name not in _MEMBERS:
            guess = nearest(name, _MEMBERS)
            known = f"do you mean {guess}?" if guess else f"there are {', '.join(_MEMBERS)}"
            raise FaultRuleError(f"a rule has no {name}", known)
    name = members.get("name", f"rule-{number}")
    if not isinstance(name, str) or not name or not name.isprintable() or len(name) > 80:
        raise FaultRuleError("a name is a text on one line of at most 80 characters", "write another")
    on = members.get("on", "")
    if on not in ("", "stdio", "http"):
        raise FaultRuleError(f"on = {on!r} is no transport", 'write "stdio" or "http"')
    do = members.get("do")
    if not isinstance(do, dict):
        raise FaultRuleError("it does nothing", 'write do = {delay = "2s"}')
    if "nth" in members and ("every" in members or "after" in members):
        other = "every" if "every" in members else "after"
        raise FaultRuleError(f"nth and {other} contradict each other", "leave one out")
    spans = _spans(members["nth"]) if "nth" in members else ()
    percentage = members.get("percentage", 100)
    if isinstance(percentage, bool) or not isinstance(percentage, int | float) or not 0 < percentage <= 100:
        raise FaultRuleError(f"percentage = {percentage!r} is not in range", "write more than 0, up to 100")
    return FaultRule(
        name,
        _filter(members.get("match", "")),
        read_action(cast("dict[str, object]", do)),
        spans,
        _count(members, "every"),
        _count(members, "after"),
        float(percentage),
        _count(members, "limit"),
        str(on),
    )


def _filter(text: object) -> Filter:
    if not isinstance(text, str):
        raise FaultRuleError("match is not a text", 'write match = "from:server tool:search*"')
    try:
        wanted = parse_filter(text)
    except FilterError as fault:
        raise FaultRuleError(f"match, column {fault.column}: {fault.fact}", fault.next_step) from None
    for term in wanted.terms:
        if term.key not in MATCHABLE:
            fact = f"match: {term.key}: is about a whole call, not about one message"
            raise FaultRuleError(fact, f"there are {', '.join(MATCHABLE)}")
        if term.key == "kind" and (strange := [word for word in term.values if word not in _KINDS]):
            raise FaultRuleError(f"match: kind:{strange[0]} is no message", f"there are {', '.join(_KINDS)}")
    return wanted


def _count(members: Mapping[str, object], name: str) -> int:
    """Return ``every``, ``after`` or ``limit``; if it is absent, the default that restricts nothing."""
    value = members.get(name)
    if value is None:
        return 1 if name == "every" else 0
    if type(value) is not int or value < 1:
        raise FaultRuleError(f"{name} = {value!r} is not a number", "write a whole number from 1 on")
    return value


def _spans(value: object) -> tuple[tuple[int, int], ...]:
    """Return the first and the last number of each part of a value such as ``3``, ``2-4`` or ``3,7``."""
    text = str(value) if type(value) in (int, str) else ""
    if _SPANS.fullmatch(text.strip()) is None:
        raise FaultRuleError(f"nth = {value!r} cannot be read", 'write 3, "2-4" or "3,7"')
    spans: list[tuple[int, int]] = []
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        span = int(first), int(last or first)
        if not 0 < span[0] <= span[1]:
            raise FaultRuleError(f"nth = {value!r}: {part.strip()} names no message", "count from 1 on")
        spans.append(span)
    return tuple(spans)


def _matches_only(rule: FaultRule, key: str, word: str) -> bool:
    """Whether the filter of a rule requires that ``key`` is ``word``."""
    return any(term.key == key and not term.negated and term.values == (word,) for term in rule.match.terms)


def _refuse_unfit(rule: FaultRule, transport: str) -> None:
    """Refuse a rule that a transport cannot apply, and a rule about findings that is no breakpoint.

    Raises:
        FaultRuleError: the rule cannot be used.
    """
    action = rule.action
    if rule.asks_for_findings and not rule.is_breakpoint:
        fact = f"rule {rule.name}: rule: and severity: are for breakpoints, and {action.verb} is none"
        raise FaultRuleError(fact, "match something else, or hold it: --break 'rule:PROTO-*'", "faults")
    what = f"{action.verb} {action.text}" if action.verb == "disconnect" else action.verb
    if transport == "stdio":
        is_unfit = action.verb in ONLY_HTTP or what == "disconnect reset"
        if _matches_only(rule, "kind", "http"):
            raise FaultRuleError(
                f"rule {rule.name}: kind:http does not exist on stdio", "leave the rule out", "faults"
            )
    else:
        is_unfit = action.verb not in OVER_HTTP or what == "disconnect half-close"
        pairs: tuple[tuple[Sender, frozenset[str]], ...] = (
            (SERVER, FROM_CLIENTS),
            (CLIENT, ANSWERS_OVER_HTTP),
        )
        for sender, verbs in pairs:
            if action.verb in verbs and _matches_only(rule, "from", sender):
                fact = f"rule {rule.name}: {what} is not for what the {sender} sends"
                raise FaultRuleError(fact, f"match from:{other(sender)}", "faults")
        if _matches_only(rule, "kind", "http") and action.verb not in WITHOUT_MESSAGE:
            fact = f"rule {rule.name}: {what} needs a message, and kind:http has none"
            raise FaultRuleError(fact, f"there are {', '.join(WITHOUT_MESSAGE)}", "faults")
    if is_unfit:
        raise FaultRuleError(
            f"rule {rule.name}: {what} does not exist on {transport}", "leave the rule out", "faults"
        )
