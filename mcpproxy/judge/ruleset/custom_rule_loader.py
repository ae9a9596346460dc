"""Load custom rules: rules that a user has written, in folders that the option ``--rules`` names.

A folder contains rule tables (``*.toml``, as in ``rules/``) and modules with checks (``*.py``). Each module
ends with ``FAMILY``, a ``RuleFamily`` that says which rules its checks report.
"""

import importlib.util
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import tomli

from mcpproxy.base import files
from mcpproxy.judge.checks.engine.dispatch import Dispatch
from mcpproxy.judge.checks.engine.rows import RuleFamily
from mcpproxy.judge.ruleset.catalogue import rules_folder
from mcpproxy.judge.ruleset.guards import CustomRuleError, OnFault, guarded
from mcpproxy.protocol.rules import Catalogue, RuleError


def load(
    folders: Iterable[str | os.PathLike[str]], built_in: Catalogue, on_fault: OnFault | None
) -> tuple[Catalogue, list[RuleFamily]]:
    """Return the rules in ``folders``, and the families of checks that report them.

    If a check fails later, during judging, ``on_fault`` is called with its rules and the error. Without
    ``on_fault``, the check raises ``CustomRuleError``.

    Raises:
        CustomRuleError: a folder does not exist or contains no rules, or something in it cannot be used.
        RuleError: a built-in table cannot be read or is not valid.
    """
    tables: dict[str, object] = {}
    families: list[RuleFamily] = []
    for folder in map(Path, folders):
        if not folder.is_dir():
            raise CustomRuleError(
                str(folder), "there is no such folder", "name a folder with *.toml and *.py"
            )
        new_tables = _tables(folder)
        if not new_tables:
            raise CustomRuleError(str(folder), "no rule table (*.toml) in it", _example_hint())
        _refuse_duplicates(folder, new_tables, [*built_in.rules, *tables])
        tables.update(new_tables)
        families += (_family(file) for file in sorted(folder.glob("*.py")))
    custom_rules = _catalogue(tables)
    _refuse_unmatched(custom_rules, families)
    return custom_rules, [guarded(family, custom_rules, on_fault) for family in families]


def _example_hint() -> str:
    return f"see 'Rules of your own' in {Path(rules_folder()) / 'README.md'}"


def _tables(folder: Path) -> Mapping[str, object]:
    """Return the content of all rule tables in ``folder``, by the codes of the rules.

    Raises:
        CustomRuleError: a file cannot be read, is not TOML, or has a rule that another file has.
    """
    tables: dict[str, object] = {}
    for file in sorted(folder.glob("*.toml")):
        try:
            new_tables = tomli.loads(files.read(str(file), files.RULES_BYTES, follows=True).decode())
        except (tomli.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
            raise CustomRuleError(str(file), f"not readable as TOML: {error}", "mend the table") from None
        _refuse_duplicates(file, new_tables, tables)
        tables |= new_tables
    return tables


def _catalogue(tables: Mapping[str, object]) -> Catalogue:
    try:
        return Catalogue.from_tables(tables)
    except RuleError as error:
        where, _, what = str(error).partition(": ")
        raise CustomRuleError(where, what, _example_hint()) from None


def _family(file: Path) -> RuleFamily:
    """Import the module ``file`` and return its ``FAMILY``.

    Raises:
        CustomRuleError: the module cannot be imported, or has no ``FAMILY``.
    """
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
    if not isinstance(family, RuleFamily):
        raise CustomRuleError(str(file), "it has no FAMILY", "end it with FAMILY = RuleFamily(checks=(...))")
    return family


def _refuse_duplicates(place: Path, new_tables: Mapping[str, object], known_codes: Iterable[str]) -> None:
    """Raise ``CustomRuleError`` if a new rule has the code of another rule."""
    if duplicates := sorted(new_tables.keys() & set(known_codes)):
        raise CustomRuleError(str(place), f"there is a rule {duplicates[0]} already", "choose another code")


def _refuse_unmatched(custom_rules: Catalogue, families: Iterable[RuleFamily]) -> None:
    """Raise ``CustomRuleError`` if a check reports a rule without a table, or no check reports a rule."""
    reported = Dispatch(families).rules
    if unknown_codes := sorted(reported - custom_rules.rules.keys()):
        raise CustomRuleError(
            unknown_codes[0], "a check reports it, but no table describes it", "add its table"
        )
    if unreported_codes := sorted(custom_rules.rules.keys() - reported):
        raise CustomRuleError(unreported_codes[0], "no check reports it", "add it to a row of FAMILY")
