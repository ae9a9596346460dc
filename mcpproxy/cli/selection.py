"""Which rules a run is about: codes, names and families as people write them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mcpproxy.cli.usage import UsageError, nearest
from mcpproxy.protocol.rules import Catalogue


@dataclass(frozen=True, slots=True)
class Selection:
    """The codes of the rules that a run is about."""

    wanted: frozenset[str]

    @classmethod
    def of(
        cls,
        catalogue: Catalogue,
        select: list[str] | None = None,
        ignore: list[str] | None = None,
        extend: list[str] | None = None,
    ) -> "Selection":
        """From the values of ``--select``, ``--ignore`` and ``--extend-select``, comma-separated lists.

        Without ``select`` all rules but those that are off by default.

        Raises:
            UsageError: a name that is neither a rule nor a family.
        """
        if select is None:
            chosen = frozenset(code for code, rule in catalogue.rules.items() if not rule.opt_in)
        else:
            chosen = _codes(catalogue, "--select", select)
        chosen |= _codes(catalogue, "--extend-select", extend or [])
        return cls(chosen - _codes(catalogue, "--ignore", ignore or []))

    def takes(self, code: str) -> bool:
        """Whether findings of the rule ``code`` are wanted."""
        return code in self.wanted


def family(code: str) -> str:
    """``PROTO`` of ``PROTO-007``."""
    return code.rpartition("-")[0]


def resolve(catalogue: Catalogue, named: str) -> frozenset[str]:
    """The codes that a code, a rule name or a family stands for; empty if it is none of them."""
    wanted = named.strip().casefold()
    known = {c: r.name for c, r in catalogue.rules.items()}
    return frozenset(c for c, name in known.items() if wanted in (c.casefold(), name, family(c).casefold()))


def unknown(where: str, catalogue: Catalogue, named: str) -> UsageError:
    """The error for a name that is no rule, with the nearest one there is."""
    names: Mapping[str, None] = dict.fromkeys(
        [*catalogue.rules, *(r.name for r in catalogue.rules.values()), *map(family, catalogue.rules)]
    )
    guess = nearest(named.strip(), names)
    next_step = f"did you mean {guess}?" if guess else "see mcpproxy rules"
    return UsageError(where, f"{named.strip()!r} is no rule and no family of rules", next_step)


def _codes(catalogue: Catalogue, option: str, values: Iterable[str]) -> frozenset[str]:
    codes: set[str] = set()
    for named in ",".join(values).split(","):
        found = resolve(catalogue, named)
        if not found and named.strip():
            raise unknown(option, catalogue, named)
        codes |= found
    return frozenset(codes)
