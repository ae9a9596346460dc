"""The options that select the rules by which a session is judged while it is recorded.

The journal of a session, the copy of its traffic from which the trace is made, also has the options. If the
recorder, which makes the trace, crashes, a later recovery reads the journal and judges by the same rules. But
custom rules are code, and a journal may come from a stranger. So recovery runs custom rules only if they have
not changed, and if the *seal* in the options proves that this same user chose their folders.
"""

import json
import os
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

from mcpproxy.base import files, paths
from mcpproxy.errors import McpProxyError
from mcpproxy.judge.ruleset.printing import printing_to_stderr
from mcpproxy.judge.session.frame import Event, Finding, Frame, Repeated

if TYPE_CHECKING:
    from mcpproxy.judge.checks.engine.rows import RuleFamily
    from mcpproxy.judge.ruleset.guards import CustomRuleError, OnFault
    from mcpproxy.judge.ruleset.ruleset import Ruleset
    from mcpproxy.judge.ruleset.selection import Selection
    from mcpproxy.protocol.jsonrpc import JSONObject

_KEY_FILE: Final = "journal.key"
"""The name of the file with the user's secret key, in the state folder."""
_KEY_BYTES: Final = 32
"""The length of that key."""
_MAX_FAULT_CHARACTERS: Final = 400
"""The maximum length of the reason for leaving out a rule, in characters."""
_MAX_FAULTS: Final = 16
"""The maximum number of failed checks that the trace names."""


class UnfitRuleOptionsError(McpProxyError):
    """The custom rules that a recording names must not or cannot be used to judge it."""


@dataclass(frozen=True, slots=True)
class RuleOptions:
    """The values of ``--rules``, ``--select``, ``--extend-select``, ``--ignore`` and ``--hosts``.

    ``folders`` are the absolute paths of folders with custom rules. ``digest`` is a hash of the files in
    them. ``seal`` is a hash of all options with a secret key of the user; it is empty without a key or
    ``folders``. ``has_faults`` says that messages of the session may be altered on purpose (faults, addons).
    ``hosts`` names the hosts by whose facts the session is judged, down to the grade ``hosts_grade``; see
    ``host_choice.chosen``.
    """

    folders: tuple[str, ...] = ()
    select: tuple[str, ...] | None = None
    extend: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    digest: str = ""
    seal: str = ""
    has_faults: bool = False
    hosts: tuple[str, ...] = ()
    hosts_grade: str = ""

    def sealed(self) -> "RuleOptions":
        """Return the same options with ``digest`` and ``seal``, so that ``refuse_unfit`` can verify them.

        Options without ``folders`` need neither, and stay as they are.

        Raises:
            OSError: a folder or a file with rules cannot be read.
        """
        if not self.folders:
            return self
        options = replace(self, digest=_digest(self.folders))
        return replace(options, seal=options.expected_seal(may_make_key=True))

    def resolve(self, on_fault: "OnFault | None" = None) -> "tuple[Ruleset, Selection]":
        """Return the ruleset, and the selection of rules whose findings are wanted.

        If there are ``folders``, this imports the code in them. ``on_fault`` is called for each custom check
        that fails later, during judging.

        Raises:
            CustomRuleError: something in a folder cannot be used.
            UsageError: a name in the options is neither a rule nor a family, or there is no such host.
            RuleError: a table that ships with mcpproxy is not valid.
        """
        # Imported here, so that an invalid rule table stops only the judging and not the recording.
        from mcpproxy.judge.ruleset import ruleset
        from mcpproxy.judge.ruleset.selection import Selection

        rules = ruleset.load(self.folders, on_fault)
        extend, families = self.extend, list["RuleFamily"]()
        if self.hosts:
            from mcpproxy.judge.ruleset import host_choice

            extend = (*extend, "HOST")
            families.append(host_choice.family(self.hosts, self.hosts_grade))
        selection = Selection.of(rules.catalogue, self.select, self.ignore, extend)
        return rules.extended(selection.wanted or (), families), selection

    def refuse_unfit(self) -> None:
        """Check that this user chose the ``folders``, and that the rules in them have not changed since.

        Raises:
            UnfitRuleOptionsError: the rules are gone or have changed, or another user chose the folders.
            OSError: a folder or a file with rules cannot be read.
        """
        if not self.folders:
            return
        import hmac

        folders = ", ".join(self.folders)
        if not self.seal or not hmac.compare_digest(self.seal, self.expected_seal()):
            raise UnfitRuleOptionsError(
                f"the rules in {folders} are code that a journal from elsewhere names: not run"
            )
        if not all(map(os.path.isdir, self.folders)):
            raise UnfitRuleOptionsError(f"the rules in {folders} are gone")
        if _digest(self.folders) != self.digest:
            raise UnfitRuleOptionsError(f"the rules in {folders} have changed since")

    def expected_seal(self, *, may_make_key: bool = False) -> str:
        """Return the seal of these options, which only this user can compute; empty without a key.

        ``may_make_key`` creates a missing key.
        """
        import hmac

        key = _key(may_make_key)
        content = json.dumps(replace(self, seal="").to_json(), sort_keys=True).encode("ascii")
        return hmac.new(key, content, "sha256").hexdigest() if key else ""

    def to_json(self) -> "JSONObject":
        """Return the options as the journal stores them."""
        members = asdict(self)
        # Options that are not given are left out, so that the seals of earlier recordings stay valid.
        for name in ("has_faults", "hosts", "hosts_grade"):
            if not members[name]:
                del members[name]
        return cast("JSONObject", members)

    @classmethod
    def from_json(cls, members: "dict[str, Any]") -> "RuleOptions":
        """Return the options that ``to_json`` returned as ``members``.

        Raises:
            KeyError, TypeError: ``members`` are not what ``to_json`` returns.
        """
        select = members["select"]
        return cls(
            tuple(map(os.fspath, members["folders"])),
            None if select is None else tuple(map(str, select)),
            tuple(map(str, members["extend"])),
            tuple(map(str, members["ignore"])),
            str(members["digest"]),
            str(members["seal"]),
            bool(members.get("has_faults")),
            tuple(map(str, members.get("hosts", ()))),
            str(members.get("hosts_grade", "")),
        )


class FilteredObserver:
    """An observer that judges by the rules in ``options`` and returns only the findings that they select.

    If a custom rule fails, judging continues without the rule, and ``left_out`` says why. Text that a custom
    rule prints goes to stderr, because stdout may belong to the protocol.

    Raises:
        CustomRuleError, UsageError, RuleError: as ``RuleOptions.resolve``.
    """

    def __init__(self, options: RuleOptions) -> None:
        self.left_out: list[str] = []
        """One line for each failed check or update: the codes of its rules, the frame, if any, and why.
        At most ``_MAX_FAULTS`` checks are named. The lines of ``Observer.left_out`` are included."""
        self._event: Event | None = None  # the event being judged
        self._runs_code = bool(options.folders)
        with printing_to_stderr() if self._runs_code else nullcontext():
            rules, self._selection = options.resolve(self._leave_out)
        self._observer = rules.observer(has_faults=options.has_faults)

    def observe(self, event: Event) -> list[Finding]:
        """Judge ``event``; return the findings that are wanted."""
        self._event = event
        takes = self._selection.takes
        with printing_to_stderr() if self._runs_code else nullcontext():
            findings = [finding for finding in self._observer.observe(event) if takes(finding.rule)]
        self.left_out += [line for line in self._observer.left_out if line not in self.left_out]
        return findings

    @property
    def forgot(self) -> str:
        """The sentence about forgotten state: see ``Observer.forgot``."""
        return self._observer.forgot

    @property
    def more(self) -> tuple[Repeated, ...]:
        """For each wanted rule, the number of findings that were only counted and not returned."""
        return tuple(repeated for repeated in self._observer.more if self._selection.takes(repeated.rule))

    def _leave_out(self, codes: Sequence[str], fault: "CustomRuleError") -> None:
        if len(self.left_out) < _MAX_FAULTS:
            reason = " ".join(str(fault).split())
            rules = ", ".join(codes) or "a state update"
            where = f" from frame {self._event.seq} on" if isinstance(self._event, Frame) else ""
            self.left_out.append(f"{rules} left out{where}: {reason[:_MAX_FAULT_CHARACTERS]}")


def _digest(folders: Iterable[str]) -> str:
    """Return a hash of the names and contents of all files with rules in ``folders``.

    Raises:
        OSError: a folder or a file cannot be read.
    """
    import hashlib

    file_hash = hashlib.sha256()
    for folder in folders:
        for name in sorted(name for name in os.listdir(folder) if name.endswith((".toml", ".py"))):
            content = files.read(os.path.join(folder, name), files.RULES_BYTES, follows=True)
            file_hash.update(
                b"%d %d\n" % (len(os.fsencode(name)), len(content)) + os.fsencode(name) + content
            )
    return file_hash.hexdigest()


def _key(may_make_key: bool) -> bytes:
    """Return the user's secret key, empty if none can be read. ``may_make_key`` creates a missing key."""
    path = os.path.join(paths.state_dir(), _KEY_FILE)
    for _ in range(2):
        try:
            key = files.read(path, _KEY_BYTES)
        except FileNotFoundError:
            if not may_make_key:
                return b""
        except OSError:
            return b""
        else:
            return key if len(key) == _KEY_BYTES else b""
        try:
            paths.make_private(os.path.dirname(path))
            files.Folder(os.path.realpath(os.path.dirname(path))).put_new(_KEY_FILE, os.urandom(_KEY_BYTES))
        except FileExistsError:  # another process has made a key meanwhile, which is then read
            pass
        except OSError:
            return b""
    return b""
