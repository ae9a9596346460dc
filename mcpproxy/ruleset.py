"""What a recording is judged by: the catalogue of rules, and the checks that report them.

The built-in rules that are on, those that somebody asked for beside them, and rules of the user's own:
a folder with tables (``*.toml``, as in ``rules/``) and modules (``*.py``), each of which ends with a
``FAMILY`` as the modules of ``mcpproxy.checks`` do.
"""

import importlib.util
from collections.abc import Container, Iterable, Mapping
from pathlib import Path

from mcpproxy import catalogue
from mcpproxy.checks import FAMILIES, OPT_IN, STANDARD
from mcpproxy.checks.dispatch import Dispatch
from mcpproxy.checks.table import Family
from mcpproxy.guards import CustomRuleError, OnFault, guarded
from mcpproxy.observer import Observer
from mcpproxy.protocol.rules import Catalogue, RuleError
from mcpproxy.protocol.slotted import slotted

__all__ = ["CustomRuleError", "Ruleset", "load"]


@slotted(frozen=True)
class Ruleset:
    """A catalogue and the checks that go with it."""

    catalogue: Catalogue
    dispatch: Dispatch = STANDARD

    def observer(self, *, joined_late: bool = False) -> Observer:
        """A judge for one recording."""
        return Observer(self.catalogue, self.dispatch, joined_late=joined_late)

    def and_also(self, wanted: Container[str], families: Iterable[Family] = ()) -> "Ruleset":
        """This one with the opt-in rules among ``wanted``, and with ``families`` beside its own."""
        asked_for = (f for f in OPT_IN if any(code in wanted for row in f.checks for code in row.rules))
        more = (*asked_for, *families)
        return Ruleset(self.catalogue, Dispatch((*self.dispatch.families, *more))) if more else self


def load(folders: Iterable[Path] = (), on_fault: OnFault | None = None) -> Ruleset:
    """The built-in rules and those in ``folders``.

    A check of the user's own that fails raises ``CustomRuleError`` while it judges; with ``on_fault`` that is
    called instead, and judging goes on without the rule.

    Raises:
        CustomRuleError: a folder holds no rules, or something in it cannot be used.
    """
    built_in = catalogue.load()
    tables: dict[str, object] = {}
    families: list[Family] = []
    for folder in folders:
        if not folder.is_dir():
            raise CustomRuleError(
                str(folder), "there is no such folder", "name a folder with *.toml and *.py"
            )
        found = _tables(folder)
        if not found:
            raise CustomRuleError(
                str(folder), "no rule table (*.toml) in it", "see 'Rules of your own' in the README"
            )
        _refuse_twice(folder, found, [*built_in.rules, *tables])
        tables.update(found)
        families += (_family(file) for file in sorted(folder.glob("*.py")))
    if not tables:
        return Ruleset(built_in)
    own = _catalogue(tables)
    _refuse_loose_ends(own, families)
    families = [guarded(family, own, on_fault) for family in families]
    merged = Catalogue({**built_in.rules, **own.rules}, {**built_in.requirements, **own.requirements})
    return Ruleset(merged, Dispatch((*FAMILIES, *families)))


def _tables(folder: Path) -> Mapping[str, object]:
    import tomllib

    found: dict[str, object] = {}
    for file in sorted(folder.glob("*.toml")):
        try:
            found |= tomllib.loads(file.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
            raise CustomRuleError(str(file), f"not readable as TOML: {error}", "mend the table") from None
    return found


def _catalogue(tables: Mapping[str, object]) -> Catalogue:
    try:
        return Catalogue.from_tables(tables)
    except RuleError as error:
        where, _, what = str(error).partition(": ")
        raise CustomRuleError(where, what, "see 'Rules of your own' in the README") from None


def _family(file: Path) -> Family:
    """The ``FAMILY`` that a module of checks ends with."""
    spec = importlib.util.spec_from_file_location(f"mcpproxy_custom_rules_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise CustomRuleError(
            str(file), f"it cannot be imported: {type(error).__name__}: {error}", "mend the module"
        ) from error
    family = getattr(module, "FAMILY", None)
    if not isinstance(family, Family):
        raise CustomRuleError(str(file), "it has no FAMILY", "end it with FAMILY = Family(checks=(...))")
    return family


def _refuse_twice(folder: Path, found: Mapping[str, object], known: Iterable[str]) -> None:
    if twice := sorted(found.keys() & set(known)):
        raise CustomRuleError(str(folder), f"there is a rule {twice[0]} already", "choose another code")


def _refuse_loose_ends(own: Catalogue, families: Iterable[Family]) -> None:
    """A check may only report what a table describes, and a table that no check reports is a slip."""
    decided = Dispatch(families).rules
    if unknown := sorted(decided - own.rules.keys()):
        raise CustomRuleError(unknown[0], "a check reports it, but no table describes it", "add its table")
    if silent := sorted(own.rules.keys() - decided):
        raise CustomRuleError(silent[0], "no check reports it", "add it to a row of FAMILY")
