"""Find and load the rule tables that ship with mcpproxy.

In an installed package they lie in ``mcpproxy/_rules``; in a checkout in ``rules/`` beside it. A table is
read when somebody asks for a rule of its family: a session that breaks nothing reads none.
"""

from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Final, TypeVar

from mcpproxy.protocol.rules import Catalogue, RuleError

_HERE = Path(__file__).resolve().parent

T = TypeVar("T")


def rules_folder() -> Path:
    """The folder of the built-in rule tables."""
    installed = _HERE / "_rules"
    return installed if installed.is_dir() else _HERE.parent / "rules"


@cache
def load() -> Catalogue:
    """The built-in catalogue.

    Asking it for a rule raises ``RuleError`` if the table of that family is broken.
    """
    return read(rules_folder())


def read(folder: Path) -> Catalogue:
    """The catalogue of the tables in ``folder``, one family a file (``proto.toml``: ``PROTO-001`` …)."""
    tables = _Tables(folder)
    return Catalogue(_Shelf(tables, "rules"), _Shelf(tables, "requirements"))


class _Tables:
    """The files of a folder, each read once."""

    def __init__(self, folder: Path) -> None:
        self._folder: Final = folder
        self._read: Final[dict[str, Catalogue]] = {}

    @cached_property
    def families(self) -> tuple[str, ...]:
        return tuple(sorted(file.stem for file in self._folder.glob("*.toml")))

    def family(self, name: str) -> Catalogue | None:
        """The rules of one file; ``None`` if there is no such file."""
        if name not in self._read:
            file = self._folder / f"{name}.toml"
            if not file.is_file():
                return None
            import tomllib  # A session that breaks nothing can do without.

            tables = tomllib.loads(file.read_text(encoding="utf-8"))
            strangers = [code for code in tables if _family(code) != name]
            if strangers:
                raise RuleError(f"{file.name}: rule {strangers[0]} belongs into another table")
            self._read[name] = Catalogue.from_tables(tables)
        return self._read[name]


class _Shelf(Mapping[str, T]):
    """What all tables hold, under keys that begin with the code of a rule."""

    def __init__(self, tables: _Tables, part: str) -> None:
        self._tables: Final = tables
        self._part: Final = part

    def __getitem__(self, key: str) -> T:
        family = self._tables.family(_family(key))
        if family is None:
            raise KeyError(key)
        return self._of(family)[key]

    def __iter__(self) -> Iterator[str]:
        for name in self._tables.families:
            if family := self._tables.family(name):
                yield from self._of(family)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _of(self, family: Catalogue) -> Mapping[str, T]:
        return getattr(family, self._part)


def _family(key: str) -> str:
    """``proto`` of ``PROTO-007`` and of ``PROTO-007/R-008``."""
    return key.partition("-")[0].lower()
