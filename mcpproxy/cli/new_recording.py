"""Begin a recording (``run``, ``http``): common options, the file name, the journal's first record, START.

A wrapped server starts only when the recording has begun, so this module imports nothing slow; argparse alone
takes longer to import than Python takes to start.
"""

from __future__ import annotations

import errno
import os
import time

from mcpproxy import __version__
from mcpproxy.base import paths
from mcpproxy.relay.journal import Journal, now_ns, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Callable, Mapping, Sequence
    from typing import NoReturn

    from mcpproxy.intercept.addons.addon_calls import MakeAddons
    from mcpproxy.intercept.fault_rules import FaultRules
    from mcpproxy.recorder.stderr_notes import Mode
    from mcpproxy.ruleset.rule_options import RuleOptions

OPTIONS = (
    ("--trace", "FILE", "record into FILE; if it exists, into FILE-2 and so on"),
    ("--trace-dir", "DIR", "record into a new file in DIR (default: {folder})"),
    ("--rotate", "SIZE|DURATION", "begin a new file after this size (100M) or time (12h)"),
    ("--label", "NAME", "what to call the server (default: {label})"),
    ("--live", "text|json|off", "how findings are written to stderr when they happen (default: text)"),
    ("--quiet", "", "write nothing to stderr; a wrapped server's own stderr still passes"),
    ("--ui", "", "serve a page that shows the session; its address is written to stderr"),
    ("--otlp", "[URL]", "send each call as a span to a collector (default: the one that OTEL_* names)"),
    ("--otlp-content", "", "with the arguments and results of tools"),
    ("--ship", "URL", "copy each closed file to an object store (s3://, gs://, az://, file://)"),
    (
        "--enforce",
        "RULE,...",
        "refuse requests that break one of these rules, instead of only flagging them; may be given again",
    ),
    ("--faults", "FILE", "do to messages what the fault rules in this file say; may be given again"),
    (
        "--fault",
        "'FILTER => ACTION'",
        "the same for one rule, such as 'from:server tool:search* => delay 2s, nth 3'; may be given again",
    ),
    ("--fault-seed", "NUMBER", "decide by this seed which messages meet a fault (default: random)"),
    (
        "--break",
        "FILTER",
        "hold matching messages for mcpproxy breakpoints, also by what is wrong with them: rule:PROTO-*,"
        " severity:error; may be given again",
    ),
    ("--break-timeout", "DURATION", "how long a message is held (default: 60s)"),
    ("--break-then", "pass|drop|error", "what becomes of it then (default: pass)"),
    (
        "--addon",
        "FILE",
        "let the addons in this file of Python change, drop or answer messages; may be given again",
    ),
    ("--rules", "DIR", "judge by the rules in this folder too; may be given again"),
    ("--select", "RULE,...", "judge by these rules only"),
    ("--extend-select", "RULE,...", "judge by these rules too, which are off by default"),
    ("--ignore", "RULE,...", "leave these rules out"),
    ("--app-errors", "", 'judge JSON errors ("error": true) in tool results too (APP)'),
    ("--secrets", "", "report keys of providers in messages and URLs too (SEC-007)"),
)
"""The options that ``run`` and ``http`` share: name, metavariable, help. A switch has no metavariable;
the metavariable of an optional value is in brackets."""

RUN_OPTIONS = (*(name for name, _, _ in OPTIONS), "--grace", "--command")
"""The options of ``run``. A command line may begin with one of them, without the word ``run``."""

_REPEATABLE = (
    "--enforce",
    "--faults",
    "--fault",
    "--break",
    "--addon",
    "--rules",
    "--select",
    "--extend-select",
    "--ignore",
)
_RULE_LISTS = ("--rules", "--select", "--extend-select", "--ignore")
_TEXTS = {
    "--trace": "trace",
    "--trace-dir": "trace_dir",
    "--label": "label",
    "--otlp": "collector",
    "--ship": "ship",
    "--break-timeout": "break_timeout",
    "--break-then": "break_then",
}
"""The attributes that hold values as they are given."""
_SWITCHES = {
    "--quiet": "is_quiet",
    "--app-errors": "app_errors",
    "--secrets": "secrets",
    "--ui": "has_page",
    "--otlp-content": "sends_content",
}
_LIVE: dict[str, Mode] = {"text": "text", "json": "json", "off": "off"}
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def help_text(text: str, label: str) -> str:
    """Return the help of an option with its default inserted; ``label`` is the default of ``--label``."""
    return text.format(folder=paths.state_dir() if "{folder}" in text else "", label=label)


def add_options(parser: ArgumentParser, options: Sequence[tuple[str, str, str]], label: str) -> None:
    """Add ``options`` so that ``RecordingOptions.take`` can take them; ``label`` is as for ``help_text``."""
    for name, metavar, text in options:
        text = help_text(text, label).replace("%", "%%")  # a folder name may contain %
        if metavar.startswith("["):
            parser.add_argument(name, metavar=metavar.strip("[]"), nargs="?", const="", help=text)
        elif metavar:
            parser.add_argument(name, metavar=metavar, action="append", default=[], help=text)
        else:
            parser.add_argument(name, action="store_true", help=text)


class RecordingOptions:
    """The values of ``OPTIONS``."""

    def __init__(self, where: str) -> None:
        """Set the defaults. ``where`` is the command that error messages name."""
        self.where = where
        self.trace = ""
        self.trace_dir = ""
        self.label = ""
        self.rotate = "null"  # as JSON, for the START record
        self.live: Mode = "text"
        self.is_quiet = False
        self.app_errors = False
        self.secrets = False
        self.has_page = False
        self.collector: str | None = None
        """The collector's URL, empty for the one that OTEL_* names; ``None`` if no spans are sent."""
        self.sends_content = False
        self.ship = ""
        """The URL of the object store; empty if nothing is shipped."""
        self.lists: dict[str, list[str]] = {name: [] for name in _REPEATABLE}
        self.rule_options: RuleOptions | None = None
        self.fault_seed: int | None = None
        self.break_timeout, self.break_then = "60s", "pass"
        self.fault_rules: FaultRules | None = None
        self.make_addons: MakeAddons | None = None

    def set(self, name: str, value: str) -> None:
        """Set the option ``name``; ``value`` is ignored for a switch.

        Raises:
            UsageError: the value cannot be used.
        """
        if name in _REPEATABLE:
            self.lists[name].append(value)
        elif name in _TEXTS:
            setattr(self, _TEXTS[name], value)
        elif name in _SWITCHES:
            setattr(self, _SWITCHES[name], True)
        elif name == "--rotate":
            from mcpproxy.cli.rotate_option import rotation_member

            self.rotate = rotation_member(value, self.where)
        elif name == "--fault-seed":
            if not value.isdecimal() or not value.isascii() or len(value) > 18:
                refuse(
                    self.where, f"--fault-seed {value} is not a number", "give a number of up to 18 digits"
                )
            self.fault_seed = int(value)
        elif name == "--live":
            if value not in _LIVE:
                refuse(self.where, f"--live {value} is not known", "use text, json or off")
            self.live = _LIVE[value]
        else:
            raise LookupError(name)
        if self.trace and self.trace_dir:
            refuse(self.where, "--trace and --trace-dir both say where to record", "leave one of them out")

    def take(self, args: object, options: Sequence[tuple[str, str, str]]) -> None:
        """Set those of ``options`` that were given; ``args`` has each as ``argparse`` reads it.

        An option with a value is a list, as it may be repeated.

        Raises:
            UsageError: a value cannot be used.
        """
        for name, metavar, _ in options:
            given = getattr(args, name[2:].replace("-", "_"))
            if metavar.startswith("["):
                if given is not None:
                    self.set(name, given)
            elif metavar:
                for value in given:
                    self.set(name, value)
            elif given:
                self.set(name, "")

    def of_part(self, name: str) -> RecordingOptions:
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
            McpProxyError: a name is not the name of a rule, or a folder has no usable rules.
        """
        lists = [self.lists[name] for name in _RULE_LISTS]
        if self.app_errors or self.secrets or any(lists):
            from mcpproxy.cli import recording_rules

            self.rule_options = recording_rules.rule_options(
                self.where, *lists, app_errors=self.app_errors, secrets=self.secrets
            )

    def resolve_faults(self) -> None:
        """Set ``fault_rules`` if there are fault rules, and judge the session as one with faults.

        Raises:
            McpProxyError: the rules cannot be used.
        """
        if any(self.lists[name] for name in ("--faults", "--fault", "--break", "--addon")):
            from mcpproxy.intercept import fault_options

            files, specs, enforced = (self.lists[name] for name in ("--faults", "--fault", "--enforce"))
            breaks = fault_options.breakpoint_rules(
                self.lists["--break"], self.break_timeout, self.break_then
            )
            addons = self.lists["--addon"]
            self.fault_rules = fault_options.fault_rules(
                self.where, files, specs, addons, self.fault_seed, breaks, is_enforcing=bool(enforced)
            )
            self.make_addons = fault_options.addons_factory(self.where, addons)
            self.rule_options = fault_options.with_faults(self.rule_options)
        elif self.fault_seed is not None:
            refuse(self.where, "--fault-seed without fault rules", "add --faults FILE or --fault")

    def check_companions(self) -> None:
        """Refuse ``--ui``, ``--otlp``, ``--otlp-content`` and ``--ship`` where they cannot work.

        Raises:
            UsageError: packages or ``--otlp`` are missing, ``--quiet`` forbids the address of the page, a
                URL cannot be used, or the system has no fork (Windows).
        """
        if self.ship:
            from mcpproxy.fleet import ship_process

            ship_process.check(self.where, self.ship)
        if self.has_page:
            from mcpproxy.ui import beside

            beside.check(self.where, is_quiet=self.is_quiet)
        if self.collector is not None:
            from mcpproxy.otel import live_process

            live_process.check(self.where, self.collector)
        elif self.sends_content:
            refuse(self.where, "--otlp-content needs --otlp", "give that option as well")

    def beside_companions(self, trace: str, record: Callable[[], None]) -> None:
        """Run ``record`` with the page, the sending of spans and the shipping beside it, if asked for.

        The recorder calls this. All notice the end of this process, however it ends, and then end too.
        """
        page = spans = shipping = None
        if self.has_page:
            from mcpproxy.ui import beside

            page = beside.start(trace)
        if self.collector is not None:
            from mcpproxy.otel.live_process import start

            spans = start(trace, self.collector, content=self.sends_content, quiet=self.is_quiet)
        if self.ship:
            from mcpproxy.fleet import ship_process

            shipping = ship_process.start(trace, self.ship, quiet=self.is_quiet)
        record()
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
            "judged_by": judged_by,
            "faults": quoted(self.fault_rules.summary) if self.fault_rules is not None else "null",
        }

    def begin(self, label: str, members: Mapping[str, str]) -> tuple[str, Journal | None, str]:
        """Begin the recording; ``label`` and ``members`` are as for ``create_recording``.

        Returns:
            The path of the trace, its journal, and a sentence for stderr. If the disk is full, or the
            default folder cannot be written, the journal is ``None``, and the traffic passes without being
            recorded.

        Raises:
            UsageError: nothing can be written to the file or folder that the options name.
        """
        try:
            trace, journal = create_recording(self.trace, self.trace_dir, label, members)
        except OSError as error:
            named = self.trace or self.trace_dir
            if error.errno in _DISK_FULL:
                return "", None, f"not recording ({error.strerror}); the traffic goes on"
            if named:
                refuse(named, f"cannot be written ({error.strerror})", "name another place with --trace-dir")
            # No option names a folder, as in most hosts: the session is worth more than its recording.
            fact = f"{paths.state_dir()} cannot be written, {error.strerror}"
            return "", None, f"not recording ({fact}; name a folder with --trace-dir); the traffic goes on"
        faults = f"; {self.fault_rules.greeting}" if self.fault_rules is not None else ""
        return trace, journal, f"recording to {trace}{faults}"


def refuse(where: str, fact: str, next_step: str) -> NoReturn:
    """Raise a ``UsageError``. Its class is imported only here, so that a normal start is not slower."""
    from mcpproxy.cli.arguments import UsageError

    raise UsageError(where, fact, next_step) from None


def create_recording(
    trace: str, trace_dir: str, label: str, members: Mapping[str, str]
) -> tuple[str, Journal]:
    """Choose an unused file name and create the journal beside it. The journal's folder reserves the name.

    Args:
        trace: the file to record into; a number is appended if it exists. Empty for a generated name.
        trace_dir: the folder of a generated name; empty for the state directory.
        label: the name of the server, used in generated names.
        members: as for ``start_payload``.

    Returns:
        The path of the trace, and the journal beside it.

    Raises:
        OSError: nothing can be written there.
    """
    first_choice = os.path.abspath(
        trace or os.path.join(trace_dir or paths.state_dir(), paths.trace_name(label))
    )
    paths.make_private(os.path.dirname(first_choice))
    started_ns = now_ns()
    start = start_payload(label, started_ns, members)
    attempt = 1
    while True:
        path = paths.numbered(first_choice, attempt)
        try:
            journal = Journal(path, start, started_ns)
            if not os.path.lexists(path):
                return path, journal
            journal.discard()
        except FileExistsError:
            pass
        attempt += 1


def start_payload(label: str, started_ns: int, members: Mapping[str, str]) -> bytes:
    """Return the payload of the START record: the data for the header of the trace and for the recorder.

    ``members`` are further members, among them ``transport`` and ``command``; each value is JSON.
    """
    wall_ns = time.time_ns()
    started_at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(wall_ns // 1_000_000_000))
    written = {
        **members,
        "label": quoted(label),
        "cwd": quoted(paths.working_directory()),
        "pid": str(os.getpid()),
        "ppid": str(os.getppid()),
        "boot": quoted(_boot_id()),
        "started_at": quoted(f"{started_at}.{wall_ns // 1000 % 1_000_000:06d}Z"),
        "started_ns": str(started_ns),
        "mcpproxy": quoted(__version__),
    }
    text = "{" + ",".join(f'"{name}":{value}' for name, value in written.items()) + "}"
    return text.encode("utf-8", "replace")


def _boot_id() -> str:
    """Return the boot id, as ``mcpproxy.recorder.liveness`` does; importing that module takes longer."""
    try:
        fd = os.open("/proc/sys/kernel/random/boot_id", os.O_RDONLY)
    except OSError:
        return ""
    try:
        return os.read(fd, 64).decode("ascii", "replace").strip()
    finally:
        os.close(fd)
