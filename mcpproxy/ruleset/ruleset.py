"""What a recording is judged by: the catalogue of rules, and the checks that report them.

The built-in rules that are on, those that somebody asked for beside them, and rules of the user's own.
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
    """A catalogue and the checks that go with it."""

    catalogue: Catalogue
    dispatch: Dispatch = STANDARD

    def observer(
        self, *, joined_late: bool = False, redacted: bool = False, lists_all: bool = False
    ) -> Observer:
        """A judge for one recording."""
        return Observer(
            self.catalogue,
            self.dispatch,
            joined_late=joined_late,
            redacted=redacted,
            lists_all=lists_all,
        )

    def and_also(self, wanted: Container[str], families: Iterable[RuleFamily] = ()) -> "Ruleset":
        """This one with the opt-in rules among ``wanted``, and with ``families`` beside its own."""
        more = (*_opted_in(wanted), *families)
        return Ruleset(self.catalogue, Dispatch((*self.dispatch.families, *more))) if more else self


def _opted_in(wanted: Container[str]) -> Iterator[RuleFamily]:
    """The families with opt-in rules that are among ``wanted``."""
    if wanted:
        from mcpproxy.checks.opt_in import families as opt_in

        for family in opt_in.FAMILIES:
            if any(code in wanted for row in family.checks for code in row.rules):
                yield family


def load(folders: Iterable[str | os.PathLike[str]] = (), on_fault: OnFault | None = None) -> Ruleset:
    """The built-in rules and those in ``folders``.

    A check of the user's own that fails raises ``CustomRuleError`` while it judges; with ``on_fault`` that is
    called instead, and judging goes on without the rule.

    Raises:
        CustomRuleError: a folder holds no rules, or something in it cannot be used.
    """
    built_in = catalogue.load()
    folders = tuple(folders)
    if not folders:
        return Ruleset(built_in)
    from mcpproxy.ruleset import custom_rule_loader  # with what it takes to import modules from anywhere

    own, families = custom_rule_loader.load(folders, built_in, on_fault)
    merged = Catalogue({**built_in.rules, **own.rules}, {**built_in.requirements, **own.requirements})
    return Ruleset(merged, Dispatch((*FAMILIES, *families)))
