"""The rules that the options of ``mcpproxy check`` choose, as a value that can be sent to another machine.

``JudgeRules.key`` names the rules and this version of mcpproxy. Results of different rules are kept under
different keys, so that they never mix.
"""

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from mcpproxy import __version__
from mcpproxy.base.files import RULES_BYTES, read
from mcpproxy.base.system_words import os_reason
from mcpproxy.errors import UsageError
from mcpproxy.judge.checks.engine.rows import RuleFamily
from mcpproxy.judge.ruleset import catalogue, ruleset
from mcpproxy.judge.ruleset.ruleset import Ruleset
from mcpproxy.judge.ruleset.selection import Selection
from mcpproxy.read.reports.judged_traces import NamedHost

if TYPE_CHECKING:  # most runs are not about hosts
    from mcpproxy.judge.checks.hosts.facts import HostChoice


@dataclass(frozen=True, slots=True)
class JudgeRules:
    """Which rules to judge by. The members are the options of ``check`` with these names.

    ``select`` is ``None`` for all rules that are on by default, and ``extend`` is ``--extend-select``.
    ``rules`` are folders of custom rules, ``versions`` and ``pins`` are paths of files, or empty. ``hosts``
    are the names of hosts whose limits count, too, and ``hosts_grade`` is the lowest grade of facts about
    them that counts, empty for ``source``.
    """

    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    extend: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    versions: str = ""
    pins: str = ""
    hosts: tuple[str, ...] = ()
    hosts_grade: str = ""

    def load(self) -> tuple[Ruleset, Selection]:
        """Return the rules, and which of their findings are reported.

        Raises:
            McpProxyError: a rule does not exist, or a file or folder cannot be used.
        """
        rules = ruleset.load(self.rules)
        extend = list(self.extend)
        families: list[RuleFamily] = []
        if self.versions:
            extend.append("VER")
            from mcpproxy.judge.checks.opt_in.implementations import range_checks
            from mcpproxy.read.reports import version_ranges

            families.append(range_checks(version_ranges.read(self.versions)))
        if self.pins:
            from mcpproxy.judge.checks.opt_in.pins import pin_checks
            from mcpproxy.read.reports import pin_file

            extend.append("PIN")
            families.append(pin_checks(pin_file.read(self.pins)))
        if self.hosts:
            from mcpproxy.judge.checks.hosts.family import host_checks

            extend.append("HOST")
            families.append(host_checks(self.host_choice()))
        selection = Selection.of(rules.catalogue, self.select, self.ignore, extend)
        return rules.extended(selection.wanted or (), families), selection

    def host_choice(self) -> "HostChoice | None":
        """Return the choice of ``hosts``; ``None`` if there are none.

        Raises:
            UsageError: there is no such host, version or grade.
            RuleError: a table of facts is not valid.
        """
        if not self.hosts:
            return None
        from mcpproxy.judge.ruleset import host_choice

        return host_choice.chosen(self.hosts, self.hosts_grade)

    def named_hosts(self) -> tuple[NamedHost, ...]:
        """Return the hosts in ``hosts``, without the client of a recording (``seen``).

        Raises:
            UsageError, RuleError: as ``host_choice``.
        """
        choice = self.host_choice()
        if choice is None:
            return ()
        from mcpproxy.read.reports.host_matrix import named_hosts

        return named_hosts(choice)

    def key(self) -> str:
        """Return a name for the rules: the version of mcpproxy, and a digest of everything that they read.

        Raises:
            UsageError: a file cannot be read.
        """
        import json  # imported here, as hashlib: every check imports this module, and most need neither
        from hashlib import sha256

        digest = sha256()
        options = asdict(self) | {"rules": len(self.rules), "versions": "", "pins": ""}
        digest.update(json.dumps(options, sort_keys=True).encode())
        for path in self._files():
            try:
                content = read(path, RULES_BYTES, follows=True)
            except OSError as error:
                reason = os_reason(error)
                raise UsageError(path, reason, "the rules are named by the content of all files") from None
            # The name of a folder may differ between machines.
            digest.update(b"%s %d\n%s" % (os.path.basename(path).encode(), len(content), content))
        return f"{__version__}-{digest.hexdigest()[:16]}"

    def _files(self) -> Iterator[str]:
        for folder in (catalogue.rules_folder(), *self.rules):
            for where, folders, names in os.walk(folder):
                folders[:] = sorted(name for name in folders if name != "__pycache__")
                yield from (
                    os.path.join(where, name) for name in sorted(names) if name.endswith((".toml", ".py"))
                )
        yield from filter(None, (self.versions, self.pins))
