"""Which rules a run is about: codes, names and families as people write them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mcpproxy.cli.usage import UsageError, nearest
from mcpproxy.protocol.rules import Catalogue


@dataclass(frozen=True, slots=True)
class Selection:
    """``only`` these rules, ``None`` for all, but not the ``ignored`` ones."""

    only: frozenset[str] | None = None
    ignored: frozenset[str] = frozenset()

    @classmethod
    def of(cls, catalogue: Catalogue, select: list[str] | None, ignore: list[str] | None) -> "Selection":
        """From the values of ``--select`` and ``--ignore``, each a comma-separated list.

        Raises:
            UsageError: a name that is neither a rule nor a family.
        """
        only = _codes(catalogue, "--select", select) if select is not None else None
        return cls(only, _codes(catalogue, "--ignore", ignore or []))

    def takes(self, code: str) -> bool:
        """Whether findings of the rule ``code`` are wanted."""
        return code not in self.ignored and (self.only is None or code in self.only)


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
