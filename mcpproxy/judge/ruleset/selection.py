"""Select rules by the codes, names or families that users write in options."""

from collections.abc import Iterable, Mapping
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.base.slotted import slotted
from mcpproxy.errors import UsageError, nearest
from mcpproxy.judge.ruleset import catalogue
from mcpproxy.protocol.rules import Catalogue, family

_CODE: Final = pattern(r"[A-Z]+-\d+")


@slotted(frozen=True)
class Selection:
    """The rules whose findings are reported: the codes in ``wanted`` that are not in ``ignored``.

    ``wanted`` is ``None`` for all rules that are on by default.
    """

    wanted: frozenset[str] | None = None
    ignored: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        rule_catalogue: Catalogue,
        select: Iterable[str] | None = None,
        ignore: Iterable[str] | None = None,
        extend: Iterable[str] | None = None,
        *,
        option: str = "--",
    ) -> "Selection":
        """Return the selection that ``--select``, ``--ignore`` and ``--extend-select`` make.

        Each value of these options is a comma-separated list. ``option`` is the prefix of the options' names
        in an error message.

        Raises:
            UsageError: a name is neither a rule nor a family.
        """
        ignored = _codes(rule_catalogue, f"{option}ignore", ignore or [])
        if select is None and not extend:
            return cls(None, ignored)
        if select is None:
            selected = frozenset(code for code, rule in rule_catalogue.rules.items() if not rule.opt_in)
        else:
            selected = _codes(rule_catalogue, f"{option}select", select)
        return cls(selected | _codes(rule_catalogue, f"{option}extend-select", extend or []), ignored)

    def takes(self, code: str) -> bool:
        """Whether findings of the rule ``code`` are wanted."""
        return code not in self.ignored and (self.wanted is None or code in self.wanted)


def known_rules(folders: list[str]) -> Catalogue:
    """Return the catalogue of the built-in rules and of the custom rules in ``folders``.

    Raises:
        CustomRuleError: something in a folder cannot be used.
        RuleError: there are ``folders``, and a built-in table is not valid.
    """
    if not folders:
        return catalogue.load()
    # Imported here, because it imports all checks, which the catalogue of the built-in rules does not need.
    from mcpproxy.judge.ruleset import ruleset

    return ruleset.load(folders).catalogue


def resolve(rule_catalogue: Catalogue, name_or_code: str) -> frozenset[str]:
    """Return the codes of the rules that a code, a rule name or a family means; empty for other text."""
    code = name_or_code.strip().upper()
    if _CODE.fullmatch(code) and code in rule_catalogue.rules:
        return frozenset((code,))  # returned at once, so that the tables of other families are not read
    folded = code.casefold()
    return frozenset(
        rule_code
        for rule_code, rule in rule_catalogue.rules.items()
        if folded in (rule_code.casefold(), rule.name, family(rule_code).casefold())
    )


def unknown(where: str, rule_catalogue: Catalogue, name_or_code: str, *, hint: str = "") -> UsageError:
    """Return the error for a name that no rule has. It suggests the nearest name, and ends with ``hint``.

    ``where`` is the option or the place in a file that has the name.
    """
    names: Mapping[str, None] = dict.fromkeys(
        [
            *rule_catalogue.rules,
            *(r.name for r in rule_catalogue.rules.values()),
            *map(family, rule_catalogue.rules),
        ]
    )
    guess = nearest(name_or_code.strip(), names)
    next_step = f"did you mean {guess}?" if guess else "see mcpproxy rules"
    return UsageError(
        where, f"{name_or_code.strip()!r} is neither a rule nor a family of rules", next_step + hint
    )


def _codes(rule_catalogue: Catalogue, option: str, values: Iterable[str]) -> frozenset[str]:
    """Return the codes of the rules that the comma-separated ``values`` of ``option`` name.

    Raises:
        UsageError: a name is neither a rule nor a family.
    """
    codes: set[str] = set()
    for name_or_code in ",".join(values).split(","):
        if not name_or_code.strip():
            continue
        named_codes = resolve(rule_catalogue, name_or_code)
        if not named_codes:
            raise unknown(option, rule_catalogue, name_or_code)
        codes |= named_codes
    return frozenset(codes)
