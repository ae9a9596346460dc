"""A ruleset: the catalogue of rules, and the checks that report them.

Its rules are the built-in ones that are on by default, the requested opt-in rules, and custom rules.
"""

import os
from collections.abc import Container, Iterable, Iterator

from mcpproxy.base.slotted import slotted
from mcpproxy.checks import FAMILIES, STANDARD
from mcpproxy.checks.engine.dispatch import Dispatch
from mcpproxy.checks.engine.rows import RuleFamily
from mcpproxy.observer import Observer
from mcpproxy.protocol.rules import Catalogue
from mcpproxy.ruleset import catalogue
from mcpproxy.ruleset.guards import CustomRuleError, OnFault

__all__ = ["CustomRuleError", "Ruleset", "load"]


@slotted(frozen=True)
class Ruleset:
    """A catalogue of rules and the checks that report them."""

    catalogue: Catalogue
    dispatch: Dispatch = STANDARD

    def observer(
        self, *, joined_late: bool = False, redacted: bool = False, lists_all: bool = False
    ) -> Observer:
        """Return an observer that judges one recording. The options are those of ``Observer``."""
        return Observer(
            self.catalogue,
            self.dispatch,
            joined_late=joined_late,
            redacted=redacted,
            lists_all=lists_all,
        )

    def and_also(self, wanted: Container[str], families: Iterable[RuleFamily] = ()) -> "Ruleset":
        """Return this ruleset extended by the opt-in rules in ``wanted`` and by ``families``."""
        more = (*_opted_in(wanted), *families)
        return Ruleset(self.catalogue, Dispatch((*self.dispatch.families, *more))) if more else self


def _opted_in(wanted: Container[str]) -> Iterator[RuleFamily]:
    """Yield the opt-in families that report a rule in ``wanted``."""
    if wanted:
        from mcpproxy.checks.opt_in import families as opt_in

        for family in opt_in.FAMILIES:
            if any(code in wanted for row in family.checks for code in row.rules):
                yield family


def load(folders: Iterable[str | os.PathLike[str]] = (), on_fault: OnFault | None = None) -> Ruleset:
    """Return the built-in rules and the custom rules in ``folders``.

    A custom check that fails raises ``CustomRuleError`` during judging. With ``on_fault``, that function is
    called instead, and judging continues without the rule.

    Raises:
        CustomRuleError: a folder contains no rules, or something in it cannot be used.
    """
    built_in = catalogue.load()
    folders = tuple(folders)
    if not folders:
        return Ruleset(built_in)
    from mcpproxy.ruleset import (
        custom_rule_loader,
    )  # imports ``importlib.util``, which is needed for custom rules only

    own, families = custom_rule_loader.load(folders, built_in, on_fault)
    merged = Catalogue({**built_in.rules, **own.rules}, {**built_in.requirements, **own.requirements})
    return Ruleset(merged, Dispatch((*FAMILIES, *families)))
