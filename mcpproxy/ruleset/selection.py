"""Select rules by code, name or family, as users write them."""

from collections.abc import Iterable, Mapping
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.base.slotted import slotted
from mcpproxy.errors import UsageError, nearest
from mcpproxy.protocol.rules import Catalogue
from mcpproxy.ruleset import catalogue

_CODE: Final = pattern(r"[A-Z]+-\d+")


@slotted(frozen=True)
class Selection:
    """The rules whose findings are reported. ``wanted`` is ``None`` for all that are on by default."""

    wanted: frozenset[str] | None = None
    ignored: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        known: Catalogue,
        select: Iterable[str] | None = None,
        ignore: Iterable[str] | None = None,
        extend: Iterable[str] | None = None,
        *,
        option: str = "--",
    ) -> "Selection":
        """Return the selection that ``--select``, ``--ignore`` and ``--extend-select`` make.

        Their values are comma-separated lists. ``option`` is the prefix of their names in an error message.

        Raises:
            UsageError: a name is neither a rule nor a family.
        """
        ignored = _codes(known, f"{option}ignore", ignore or [])
        if select is None and not extend:
            return cls(None, ignored)
        if select is None:
            chosen = frozenset(code for code, rule in known.rules.items() if not rule.opt_in)
        else:
            chosen = _codes(known, f"{option}select", select)
        return cls(chosen | _codes(known, f"{option}extend-select", extend or []), ignored)

    def takes(self, code: str) -> bool:
        """Whether findings of the rule ``code`` are wanted."""
        return code not in self.ignored and (self.wanted is None or code in self.wanted)


def known_rules(folders: list[str]) -> Catalogue:
    """Return the catalogue of the built-in rules and those in ``folders``.

    Raises:
        CustomRuleError: something in a folder cannot be used.
    """
    if not folders:
        return catalogue.load()
    from mcpproxy.ruleset import (
        ruleset,
    )  # imports all checks, which a list of the built-in rules does not need

    return ruleset.load(folders).catalogue


def family(code: str) -> str:
    """Return the family of a rule: ``PROTO`` for ``PROTO-007``."""
    return code.rpartition("-")[0]


def resolve(known: Catalogue, named: str) -> frozenset[str]:
    """Return the rule codes for a code, a rule name or a family; empty if it is none of these."""
    code = named.strip().upper()
    if _CODE.fullmatch(code) and code in known.rules:
        return frozenset((code,))  # without reading the tables of other families
    wanted = code.casefold()
    names = {c: r.name for c, r in known.rules.items()}
    return frozenset(c for c, name in names.items() if wanted in (c.casefold(), name, family(c).casefold()))


def unknown(where: str, known: Catalogue, named: str, *, hint: str = "") -> UsageError:
    """Return the error for a name that is not a rule, with the nearest known name and then ``hint``."""
    names: Mapping[str, None] = dict.fromkeys(
        [*known.rules, *(r.name for r in known.rules.values()), *map(family, known.rules)]
    )
    guess = nearest(named.strip(), names)
    next_step = f"did you mean {guess}?" if guess else "see mcpproxy rules"
    return UsageError(where, f"{named.strip()!r} is neither a rule nor a family of rules", next_step + hint)


def _codes(known: Catalogue, option: str, values: Iterable[str]) -> frozenset[str]:
    codes: set[str] = set()
    for named in ",".join(values).split(","):
        if not named.strip():
            continue  # Resolving a name may read all rule tables.
        found = resolve(known, named)
        if not found:
            raise unknown(option, known, named)
        codes |= found
    return frozenset(codes)
