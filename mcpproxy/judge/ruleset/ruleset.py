"""A ruleset: the catalogue of rules, and the checks that report them.

A ruleset has the checks of the built-in rules that are on by default. Those of opt-in rules and of custom
rules can be added to it.
"""

import os
from collections.abc import Container, Iterable, Iterator
from typing import TYPE_CHECKING

from mcpproxy.base.slotted import slotted
from mcpproxy.judge.checks import FAMILIES, STANDARD
from mcpproxy.judge.checks.engine.dispatch import Dispatch
from mcpproxy.judge.checks.engine.rows import RuleFamily
from mcpproxy.judge.observer import Observer
from mcpproxy.judge.ruleset import catalogue
from mcpproxy.judge.ruleset.guards import CustomRuleError, OnFault
from mcpproxy.protocol.rules import Catalogue

if TYPE_CHECKING:
    from mcpproxy.judge.observer.two_views import TwoViews

__all__ = ["CustomRuleError", "Ruleset", "load"]


@slotted(frozen=True)
class Ruleset:
    """A catalogue of rules and the checks that report them."""

    catalogue: Catalogue
    dispatch: Dispatch = STANDARD

    def observer(
        self,
        *,
        joined_late: bool = False,
        redacted: bool = False,
        over_http: bool = False,
        lists_all: bool = False,
        has_faults: bool = False,
    ) -> "Observer | TwoViews":
        """Return an observer that judges one recording.

        ``has_faults`` says that mcpproxy altered messages on purpose. The other options are those of
        ``Observer``.
        """

        def make() -> Observer:
            return Observer(
                self.catalogue,
                self.dispatch,
                joined_late=joined_late,
                redacted=redacted,
                over_http=over_http,
                lists_all=lists_all,
            )

        if not has_faults:
            return make()
        from mcpproxy.judge.observer.two_views import TwoViews  # imported late: few recordings need it

        return TwoViews(make)

    def extended(self, wanted: Container[str], families: Iterable[RuleFamily] = ()) -> "Ruleset":
        """Return this ruleset, plus ``families`` and the opt-in families that report a rule in ``wanted``."""
        added = (*_opt_in_families(wanted), *families)
        return Ruleset(self.catalogue, Dispatch((*self.dispatch.families, *added))) if added else self


def _opt_in_families(wanted: Container[str]) -> Iterator[RuleFamily]:
    """Yield the opt-in families that report a rule in ``wanted``."""
    if wanted:
        from mcpproxy.judge.checks.opt_in import families as opt_in

        for family in opt_in.FAMILIES:
            if any(code in wanted for code in Dispatch((family,)).rules):
                yield family


def load(folders: Iterable[str | os.PathLike[str]] = (), on_fault: OnFault | None = None) -> Ruleset:
    """Return the built-in rules and the custom rules in ``folders``.

    If a custom check fails during judging, it raises ``CustomRuleError``. With ``on_fault``, that function is
    called with the rules and the error instead, and judging continues without these rules.

    Raises:
        CustomRuleError: a folder does not exist or contains no rules, or something in it cannot be used.
        RuleError: there are ``folders``, and a built-in table is not valid.
    """
    built_in = catalogue.load()
    folders = tuple(folders)
    if not folders:
        return Ruleset(built_in)
    # Imported here, because it imports ``importlib.util``, which only custom rules need.
    from mcpproxy.judge.ruleset import custom_rule_loader

    custom, families = custom_rule_loader.load(folders, built_in, on_fault)
    merged = Catalogue({**built_in.rules, **custom.rules}, {**built_in.requirements, **custom.requirements})
    return Ruleset(merged, Dispatch((*FAMILIES, *families)))
