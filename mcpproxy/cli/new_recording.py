"""Begin a recording for ``run``, ``http``, ``model`` and ``bridge``: options, file name, START record.

The journal is the folder into which the relay copies the traffic; the recorder makes the trace from it. Its
first record, START, has the facts about the session. A wrapped server starts only when the recording has
begun, so this module imports nothing slow.
"""

from __future__ import annotations

import os

from mcpproxy import __version__
from mcpproxy.base import paths
from mcpproxy.base.json_string import quoted
from mcpproxy.cli.option_table import refuse
from mcpproxy.record.relay.journal import DEFAULT_RESERVE, Journal, now_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpproxy.cli.option_table import Given, Option
    from mcpproxy.gate.intercept.fault_rules import FaultRules
    from mcpproxy.gate.intercept.gate_options import GateOptions, MakePolicy, MakePolicyFactory
    from mcpproxy.judge.ruleset.rule_options import RuleOptions
    from mcpproxy.record.recorder.stderr_notes import Mode
    from mcpproxy.record.relay.http.proxy_interface import MakeProxyGate
    from mcpproxy.record.relay.stdio.line_gate import MakeLineGate

OPTIONS: dict[str, tuple[Option, ...]] = {
    "recording": (
        ("--trace", "FILE", "record into FILE; if it exists, into FILE-2 and so on"),
        ("--trace-dir", "DIR", "record into a new file in DIR (default: {folder})"),
        ("--label", "NAME", "what to call the server (default: {label})"),
        ("--rotate", "SIZE|DURATION", "begin a new file after this size (100M) or time (12h)"),
        ("--max-size", "SIZE", "record no more than this of a session (1G); what is left out is counted"),
        ("--keep", "AGE", "delete recordings of the same folder that nobody changed for so long (12h, 30d)"),
        ("--reserve", "SIZE", "record only while so much of the disk is free; 0 for nothing (default: 1G)"),
    ),
    "rules": (
        ("--rules", "DIR", "judge by the rules in this folder too; may be given again"),
        ("--select", "RULE,...", "judge by these rules only"),
        ("--extend-select", "RULE,...", "judge by these rules too, which are off by default"),
        ("--ignore", "RULE,...", "leave these rules out"),
        ("--app-errors", "", 'judge JSON errors ("error": true) in tool results too (APP)'),
        ("--secrets", "", "report keys of providers in messages and URLs too (SEC-007)"),
        (
            "--hosts",
            "HOST,...",
            "report what the client that is there (seen), or a host of this name, does not take too (HOST)",
        ),
        ("--hosts-grade", "GRADE", "also by facts no better than this: changelog, document, thread"),
    ),
    "faults and changes": (
        (
            "--enforce",
            "RULE,...",
            "refuse requests that break one of these rules, instead of only flagging them;"
            " may be given again",
        ),
        ("--faults", "FILE", "apply the fault rules in this file to messages; may be given again"),
        (
            "--fault",
            "'FILTER => ACTION'",
            "the same for one rule, such as 'from:server tool:search* => delay 2s, nth 3';"
            " may be given again",
        ),
        ("--fault-seed", "NUMBER", "decide by this seed which messages meet a fault (default: random)"),
        (
            "--break",
            "FILTER",
            "hold matching messages for mcpproxy breakpoints, also by what is wrong with them: rule:PROTO-*,"
            " severity:error; may be given again",
        ),
        ("--break-timeout", "DURATION", "how long a message is held (default: 60s)"),
        ("--break-then", "pass|drop|error", "what happens to it then (default: pass)"),
        (
            "--addon",
            "FILE",
            "let the addons in this file of Python change, drop or answer messages; may be given again",
        ),
    ),
    "output": (
        (
            "--live",
            "text|json|off",
            "how findings are written to stderr when they happen; with json every line is an object "
            "(default: text)",
        ),
        (
            "--quiet",
            "",
            "write nothing to stderr but why a server cannot start; a wrapped server's own stderr passes",
        ),
        ("--ui", "", "serve a page that shows the session; its address is written to stderr"),
        ("--otlp", "[URL]", "send each call as a span to a collector (default: the one that OTEL_* names)"),
        ("--otlp-content", "", "with the arguments and results of tools"),
        ("--ship", "URL", "copy each closed file to an object store (s3://, gs://, az://, file://)"),
    ),
}
"""Title of a group -> its options, for an ``OptionTable``: ``run`` and ``http`` have all, others some."""

POLICIES = {
    "--enforce": "mcpproxy.cli.enforce_options",
}
"""Option -> the module whose ``policy_factory`` makes a factory of its policy, which may refuse messages."""

_LIVE_MODES: dict[str, Mode] = {"text": "text", "json": "json", "off": "off"}


class RecordingOptions:
    """The values of ``OPTIONS``."""

    def __init__(self, where: str, given: Given) -> None:
        """Read the values in ``given``. ``where`` is the command that error messages name.

        Raises:
            UsageError: a value cannot be used.
        """
        self.where = where
        self.given = given
        self.trace, self.trace_dir = given.text("--trace"), given.text("--trace-dir")
        if self.trace and self.trace_dir:
            refuse(where, "--trace and --trace-dir both say where to record", "leave one of them out")
        self.label = given.text("--label")
        self.rotate = "null"  # as JSON, for the START record
        if "--rotate" in given:
            from mcpproxy.cli.rotate_option import rotation_member

            self.rotate = rotation_member(given.text("--rotate"), where)
        self.max_bytes, self.reserve = 0, DEFAULT_RESERVE
        """Sizes in bytes; a ``max_bytes`` of 0 is no limit, a ``reserve`` of 0 keeps nothing free."""
        if "--max-size" in given or "--reserve" in given:
            from mcpproxy.cli.rotate_option import size_bytes

            if "--max-size" in given:
                self.max_bytes = size_bytes(given.text("--max-size"), "--max-size", where, least=1 << 20)
            if "--reserve" in given:
                self.reserve = size_bytes(given.text("--reserve"), "--reserve", where, least=0)
        self.keep = given.text("--keep")
        """The age at which recordings of the same folder are deleted, as text; empty to keep all."""
        if self.keep:
            from mcpproxy.cli.keep_option import check_age

            check_age(where, self.keep, has_file=bool(self.trace))
        live = given.text("--live", "text")
        if live not in _LIVE_MODES:
            refuse(where, f"--live {live} is not known", "use text, json or off")
        self.live: Mode = _LIVE_MODES[live]
        # Addons may have a hook for findings, and the recorder writes the last finding after the session.
        self.is_awaited = ("--live" in given and live != "off") or "--addon" in given
        """Whether the end of the session waits for the last lines that the recorder writes to stderr."""
        self.is_quiet = "--quiet" in given
        self.app_errors, self.secrets = "--app-errors" in given, "--secrets" in given
        self.has_page = "--ui" in given
        self.collector = given.text("--otlp") if "--otlp" in given else None
        """The collector's URL, empty for the one that OTEL_* names; ``None`` if no spans are sent."""
        self.sends_content = "--otlp-content" in given
        self.ship = given.text("--ship")
        """The URL of the object store; empty if nothing is shipped."""
        self.fault_seed: int | None = None
        if seed := given.text("--fault-seed"):
            if not seed.isdecimal() or not seed.isascii() or len(seed) > 18:
                refuse(where, f"--fault-seed {seed} is not a number", "give a number of up to 18 digits")
            self.fault_seed = int(seed)
        self.rule_options: RuleOptions | None = None
        self.fault_rules: FaultRules | None = None
        self.gate: GateOptions | None = None

    def for_part(self, name: str) -> RecordingOptions:
        """Return the options for one of several recordings: ``name`` is added to the file of ``--trace``."""
        import copy

        part = copy.copy(self)
        if self.trace:
            stem, suffix = os.path.splitext(self.trace)
            part.trace = f"{stem}-{name}{suffix}"
        return part

    def resolve_rules(self) -> None:
        """Set ``rule_options`` if an option selects rules.

        Raises:
            CustomRuleError, UsageError, OSError: as for ``recording_rules.rule_options``.
        """
        names = ("--rules", "--select", "--extend-select", "--ignore", "--hosts")
        lists, grade = [self.given[name] for name in names], self.given.text("--hosts-grade")
        if self.app_errors or self.secrets or grade or any(lists):
            from mcpproxy.cli import recording_rules

            self.rule_options = recording_rules.rule_options(
                self.where, *lists, hosts_grade=grade, app_errors=self.app_errors, secrets=self.secrets
            )

    def resolve_gate(self) -> None:
        """Set ``gate`` if an option holds messages, and ``fault_rules`` if an option may alter them.

        A gate holds each message until it is decided whether and how the message passes. If messages may be
        altered, ``rule_options`` become those of a session with faults.

        Raises:
            McpProxyError: an option cannot be used.
        """
        enforced = [name for name in POLICIES if self.given[name]]
        alters = any(self.given[name] for name in ("--faults", "--fault", "--break", "--addon"))
        if self.fault_seed is not None and not alters:
            refuse(self.where, "--fault-seed without fault rules", "add --faults FILE or --fault")
        if not enforced and not alters:
            return
        from importlib import import_module

        from mcpproxy.gate.intercept import gate_options

        policies: list[MakePolicy] = []
        for name in enforced:
            make: MakePolicyFactory = import_module(POLICIES[name]).policy_factory
            policies.append(make(self.where, self.given[name], self.rule_options))
        make_addons = None
        if alters:
            files, specs, addons = (self.given[name] for name in ("--faults", "--fault", "--addon"))
            timeout, then = self.given.text("--break-timeout", "60s"), self.given.text("--break-then", "pass")
            breaks = gate_options.breakpoint_rules(self.given["--break"], timeout, then)
            self.fault_rules = gate_options.fault_rules(
                self.where, files, specs, addons, self.fault_seed, breaks
            )
            make_addons = gate_options.addons_factory(self.where, addons)
            self.rule_options = gate_options.with_faults(self.rule_options)
        make_judge = gate_options.judge_factory(self.fault_rules, self.rule_options)
        self.gate = gate_options.GateOptions(self.fault_rules, make_addons, make_judge, tuple(policies))

    def stdio_gate(self, trace: str) -> MakeLineGate | None:
        """Return the factory of the gate for a session recorded into ``trace``; ``None`` without a gate."""
        if self.gate is None:
            return None
        from mcpproxy.gate.intercept.gates import stdio_gate

        return stdio_gate(self.gate, trace)

    def http_gate(self, endpoint: str, trace: str) -> MakeProxyGate | None:
        """Return the factory of the gate for a proxy recorded into ``trace``; ``None`` without a gate."""
        if self.gate is None:
            return None
        from mcpproxy.gate.intercept.gates import http_gate

        return http_gate(self.gate, endpoint, trace)

    def check_companions(self) -> None:
        """Refuse ``--ui``, ``--otlp``, ``--otlp-content`` and ``--ship`` where they cannot work.

        Raises:
            UsageError: a package is missing, or ``--otlp`` for ``--otlp-content``, ``--quiet`` forbids the
                address of the page, a URL cannot be used, or the system has no fork (Windows).
        """
        if self.ship:
            from mcpproxy.send.fleet import ship_process

            ship_process.check(self.where, self.ship)
        if self.has_page:
            from mcpproxy.show.ui import beside

            beside.check(self.where, is_quiet=self.is_quiet)
        if self.collector is not None:
            from mcpproxy.send.otel import live_process

            live_process.check(self.where, self.collector)
        elif self.sends_content:
            refuse(self.where, "--otlp-content needs --otlp", "give that option as well")

    def run_with_companions(self, trace: str, record: Callable[[], None]) -> None:
        """Run ``record`` beside the companions that the options name.

        They serve the page, send spans, ship files and delete old recordings. This method runs in the process
        of the recorder. However that ends, the page ends with it; spans and files are sent for a limited time
        after it, and a deletion is finished.
        """
        page = spans = shipping = None
        if self.keep:
            from mcpproxy.cli.keep_option import start_pruning

            start_pruning(os.path.dirname(trace), self.keep, quiet=self.is_quiet)
        if self.has_page:
            from mcpproxy.show.ui import beside

            page = beside.start(trace)
        if self.collector is not None:
            from mcpproxy.send.otel.live_process import start

            spans = start(trace, self.collector, content=self.sends_content, quiet=self.is_quiet)
        if self.ship:
            from mcpproxy.send.fleet import ship_process

            shipping = ship_process.start(trace, self.ship, quiet=self.is_quiet)
        try:
            record()
        finally:
            if shipping is not None:
                shipping.finish()
            if spans is not None:
                spans.finish()
            del page  # closes its stdin, so it ends

    def members(self) -> dict[str, str]:
        """Return the members of the START record for these options; each value is JSON text."""
        judged_by = "null"
        if self.rule_options is not None:
            from mcpproxy.cli import recording_rules

            judged_by = recording_rules.as_json(self.rule_options)
        return {
            "salt": quoted(os.urandom(32).hex()),  # the key of the masks; it is deleted with the journal
            "rotate": self.rotate,
            "max_bytes": str(self.max_bytes),
            "reserve": str(self.reserve),
            "judged_by": judged_by,
            "faults": quoted(self.fault_rules.summary) if self.fault_rules is not None else "null",
        }

    def note(self, text: str, event: str, **members: str) -> str:
        """Return ``text`` as a line for stderr: with ``--live json``, as the object of an ``event``.

        ``members`` are further members of the object; their values are JSON text.
        """
        if self.live != "json":
            return text
        from mcpproxy.record.relay.stderr_line import StderrEvent  # few sessions need it

        return StderrEvent(text, event, **members)

    def begin(self, label: str, members: Mapping[str, str]) -> tuple[str, Journal | None, str]:
        """Begin the recording; ``label`` and ``members`` are as for ``create_recording``.

        Returns:
            The path of the trace, its journal, and a sentence for stderr. If the disk is full, or the default
            folder cannot be written, the path is empty, the journal is ``None``, and the traffic passes
            without being recorded.

        Raises:
            UsageError: nothing can be written to the file or folder that the options name.
        """
        if self.live == "json":
            from mcpproxy.record.relay.stderr_line import use_json

            use_json()
        try:
            trace, journal = create_recording(self.trace, self.trace_dir, label, members, self.reserve)
        except OSError as error:
            from errno import EDQUOT, EFBIG, ENOSPC  # seldom needed

            named = self.trace or self.trace_dir
            if error.errno in (ENOSPC, EDQUOT, EFBIG):
                return "", None, f"not recording ({error.strerror}); the traffic goes on"
            if named:
                refuse(named, f"cannot be written ({error.strerror})", "name another place with --trace-dir")
            # No option names a folder, as in most hosts: the session is worth more than its recording.
            fact = f"{paths.state_dir()} cannot be written, {error.strerror}"
            return "", None, f"not recording ({fact}; name a folder with --trace-dir); the traffic goes on"
        faults = f"; {self.fault_rules.greeting}" if self.fault_rules is not None else ""
        return trace, journal, self.note(f"recording to {trace}{faults}", "recording", trace=quoted(trace))


def create_recording(
    trace: str, trace_dir: str, label: str, members: Mapping[str, str], reserve: int = 0
) -> tuple[str, Journal]:
    """Choose an unused file name and create the journal beside it. The journal's folder reserves the name.

    Args:
        trace: the file to record into; a number is appended if it exists. Empty for a generated name.
        trace_dir: the folder of a generated name; empty for the state directory.
        label: the name of the server, used in generated names.
        members: as for ``start_payload``.
        reserve: how many bytes of the disk stay free, as for ``Journal``.

    Returns:
        The path of the trace, and the journal beside it.

    Raises:
        OSError: nothing can be written there.
    """
    first_choice = os.path.abspath(
        trace or os.path.join(trace_dir or paths.state_dir(), paths.trace_name(label))
    )
    if trace and os.path.isdir(first_choice):
        import errno

        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    paths.make_private(os.path.dirname(first_choice))
    started_ns = now_ns()
    start = start_payload(label, started_ns, members)
    attempt = 1
    while True:
        path = paths.numbered(first_choice, attempt)
        try:
            journal = Journal(path, start, started_ns, reserve)
            if not os.path.lexists(path):
                return path, journal
            journal.discard()
        except FileExistsError:
            pass
        attempt += 1


def start_payload(label: str, started_ns: int, members: Mapping[str, str]) -> bytes:
    """Return the payload of the START record: the data for the header of the trace and for the recorder.

    ``started_ns`` is from ``now_ns``. ``members`` are further members, among them ``transport`` and
    ``command``; each value is JSON.
    """
    written = {
        **members,
        "label": quoted(label),
        "cwd": quoted(paths.working_directory()),
        "pid": str(os.getpid()),
        "ppid": str(os.getppid()),
        "boot": quoted(_boot_id()),
        "started_at": quoted(paths.rfc3339()),
        "started_ns": str(started_ns),
        "mcpproxy": quoted(__version__),
    }
    text = "{" + ",".join(f'"{name}":{value}' for name, value in written.items()) + "}"
    return text.encode("utf-8", "replace")


def _boot_id() -> str:
    """Return the boot id as ``recorder.liveness`` does, whose import takes longer; empty if unknown."""
    try:
        fd = os.open("/proc/sys/kernel/random/boot_id", os.O_RDONLY)
    except OSError:
        return ""
    try:
        return os.read(fd, 64).decode("ascii", "replace").strip()
    finally:
        os.close(fd)
