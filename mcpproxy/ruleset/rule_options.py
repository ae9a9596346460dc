"""The options that select the rules by which a session is judged while it is recorded.

They are stored in the START record and in the checkpoint of the journal, so that a later recovery judges as
the recorder did. Custom rules are code, and a journal may come from a stranger. So recovery runs the rules
that a journal names only if the seal shows that this user named them, and if they have not changed.
"""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

from mcpproxy.base import files, paths
from mcpproxy.errors import McpProxyError
from mcpproxy.session.frame import Event, Finding, Frame, Repeated

if TYPE_CHECKING:
    from mcpproxy.protocol.jsonrpc import JSONObject
    from mcpproxy.ruleset.guards import CustomRuleError, OnFault
    from mcpproxy.ruleset.ruleset import Ruleset
    from mcpproxy.ruleset.selection import Selection

_KEY: Final = "journal.key"
_KEY_BYTES: Final = 32
_FAULT_CHARACTERS: Final = 400
_MAX_FAULTS: Final = 16
"""The maximum number of left-out rules that the trace names."""


class UnfitRuleOptionsError(McpProxyError):
    """The session cannot be judged by the rules that its recording names."""


@dataclass(frozen=True, slots=True)
class RuleOptions:
    """The values of ``--rules``, ``--select``, ``--extend-select`` and ``--ignore``.

    ``folders`` are absolute paths. ``digest`` is the hash of the rules in them. ``seal`` is a keyed hash that
    proves which user named them, empty if there is no key.
    """

    folders: tuple[str, ...] = ()
    select: tuple[str, ...] | None = None
    extend: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    digest: str = ""
    seal: str = ""

    def sealed(self) -> "RuleOptions":
        """Return the same options with ``digest`` and ``seal`` set, so that they can be verified later."""
        if not self.folders:
            return self
        options = replace(self, digest=_digest(self.folders))
        return replace(options, seal=options.expected_seal(may_make_key=True))

    def resolve(self, on_fault: "OnFault | None" = None) -> "tuple[Ruleset, Selection]":
        """Return the rules and the selection of wanted ones. With ``folders``, this runs the user's code.

        ``on_fault`` is as for ``mcpproxy.ruleset.ruleset.load``.

        Raises:
            CustomRuleError: something in a folder cannot be used.
            UsageError: a name is not that of a rule.
        """
        # Not at the top of the module: an invalid rule table must stop only the judging.
        from mcpproxy.ruleset import ruleset
        from mcpproxy.ruleset.selection import Selection

        rules = ruleset.load(self.folders, on_fault)
        selection = Selection.of(rules.catalogue, self.select, self.ignore, self.extend)
        return rules.and_also(selection.wanted or ()), selection

    def refuse_unfit(self) -> None:
        """Refuse to run the rules that a journal names, unless this user named them and they are unchanged.

        Raises:
            UnfitRuleOptionsError: the rules no longer exist, have changed, or were named by another user.
        """
        if not self.folders:
            return
        import hmac

        named = ", ".join(self.folders)
        if not self.seal or not hmac.compare_digest(self.seal, self.expected_seal()):
            raise UnfitRuleOptionsError(
                f"the rules in {named} are code that a journal from elsewhere names: not run"
            )
        if not all(map(os.path.isdir, self.folders)):
            raise UnfitRuleOptionsError(f"the rules in {named} are gone")
        if _digest(self.folders) != self.digest:
            raise UnfitRuleOptionsError(f"the rules in {named} have changed since")

    def expected_seal(self, *, may_make_key: bool = False) -> str:
        """Return the seal of these options, which only this user can compute; empty without a key."""
        import hmac

        key = _key(may_make_key)
        content = json.dumps(replace(self, seal="").to_json(), sort_keys=True).encode("ascii")
        return hmac.new(key, content, "sha256").hexdigest() if key else ""

    def to_json(self) -> "JSONObject":
        """Return the options as the journal stores them."""
        return cast("JSONObject", asdict(self))

    @classmethod
    def from_json(cls, members: "dict[str, Any]") -> "RuleOptions":
        """Return the options that ``to_json`` returned as ``members``.

        Raises:
            KeyError, TypeError: ``members`` are not those of ``to_json``.
        """
        select = members["select"]
        return cls(
            tuple(map(os.fspath, members["folders"])),
            None if select is None else tuple(map(str, select)),
            tuple(map(str, members["extend"])),
            tuple(map(str, members["ignore"])),
            str(members["digest"]),
            str(members["seal"]),
        )


class FilteredObserver:
    """An observer that judges by ``options`` and returns only the findings that they select.

    If a custom rule fails, judging continues without it, and ``left_out`` says so. What a custom rule prints
    goes to stderr.

    Raises:
        CustomRuleError, UsageError: as ``RuleOptions.resolve``.
    """

    def __init__(self, options: RuleOptions) -> None:
        self.left_out: list[str] = []
        """One line per failed rule: its code, from which frame on it was left out, and why."""
        self._event: Event | None = None
        self._runs_code = bool(options.folders)
        with redirect_stdout(sys.stderr) if self._runs_code else nullcontext():
            rules, self._selection = options.resolve(self._leave_out)
        self._observer = rules.observer()

    def observe(self, event: Event) -> list[Finding]:
        """Judge ``event``; return the findings that are wanted."""
        self._event = event
        takes = self._selection.takes
        with redirect_stdout(sys.stderr) if self._runs_code else nullcontext():
            return [finding for finding in self._observer.observe(event) if takes(finding.rule)]

    @property
    def forgot(self) -> str:
        """What the observer forgot, see ``Observer.forgot``."""
        return self._observer.forgot

    @property
    def more(self) -> tuple[Repeated, ...]:
        """The number of findings beyond those given in full, for the rules that are wanted."""
        return tuple(repeated for repeated in self._observer.more if self._selection.takes(repeated.rule))

    def _leave_out(self, codes: Sequence[str], fault: "CustomRuleError") -> None:
        if len(self.left_out) < _MAX_FAULTS:
            why = " ".join(str(fault).split())
            named = ", ".join(codes) or "a state update"
            where = f" from frame {self._event.seq} on" if isinstance(self._event, Frame) else ""
            self.left_out.append(f"{named} left out{where}: {why[:_FAULT_CHARACTERS]}")


def _digest(folders: Iterable[str]) -> str:
    """Return a hash of all files that rules in ``folders`` are read from."""
    import hashlib

    taken = hashlib.sha256()
    for folder in folders:
        for name in sorted(name for name in os.listdir(folder) if name.endswith((".toml", ".py"))):
            with open(os.path.join(folder, name), "rb") as file:
                content = file.read()
            taken.update(b"%d %d\n" % (len(os.fsencode(name)), len(content)) + os.fsencode(name) + content)
    return taken.hexdigest()


def _key(may_make: bool) -> bytes:
    """Return the user's key, or empty if there is none. ``may_make`` creates a missing key."""
    path = os.path.join(paths.state_dir(), _KEY)
    for _ in range(2):
        try:
            key = files.read(path, _KEY_BYTES)
        except FileNotFoundError:
            if not may_make:
                return b""
        except OSError:
            return b""
        else:
            return key if len(key) == _KEY_BYTES else b""
        try:
            paths.make_private(os.path.dirname(path))
            draft = f"{path}.{os.getpid()}"
            fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(fd, "wb") as file:
                file.write(os.urandom(_KEY_BYTES))
            try:
                os.link(draft, path)  # if another process was faster, its key stays
            finally:
                os.unlink(draft)
        except FileExistsError:
            pass
        except OSError:
            return b""
    return b""
