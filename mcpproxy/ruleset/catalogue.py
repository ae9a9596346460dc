"""Find and load the rule tables that ship with mcpproxy.

They are TOML files: in a checkout in ``rules/`` beside the package, in an installed package in
``mcpproxy/_rules``. Parsing all of them takes longer than starting Python and a command, so a file is read
when a rule of its family is first needed. A session without findings reads none.
"""

import os
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from typing import Final, TypeVar

from mcpproxy.protocol.rules import Catalogue, RuleError

_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))

_SUFFIX: Final = ".toml"

_DAMAGED: Final = "the tables that ship with mcpproxy are damaged: install it again"

T = TypeVar("T")


def rules_folder() -> str:
    """Return the folder of the built-in rule tables.

    ``importlib.resources`` would find it as well, but importing that takes longer than importing ``tomli``.
    """
    installed = os.path.join(_PACKAGE, "_rules")
    return installed if os.path.isdir(installed) else os.path.join(os.path.dirname(_PACKAGE), "rules")


@cache
def load() -> Catalogue:
    """Return the built-in catalogue.

    Looking up a rule in it raises ``RuleError`` if the table of that family is invalid.
    """
    return read(rules_folder())


def read(folder: str) -> Catalogue:
    """Return the catalogue of ``folder``, which has one family per file (``proto.toml``: ``PROTO-001`` …)."""
    tables = _Tables(folder)
    return Catalogue(_TableValues(tables, "rules"), _TableValues(tables, "requirements"))


class _Tables:
    """The TOML files of a folder, each read at most once."""

    def __init__(self, folder: str) -> None:
        self._folder: Final = folder
        self._read: Final[dict[str, Catalogue]] = {}

    @cached_property
    def families(self) -> tuple[str, ...]:
        try:
            names = sorted(os.listdir(self._folder))
        except OSError as error:
            raise RuleError(f"{self._folder}: {error.strerror}; {_DAMAGED}") from None
        return tuple(name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))

    def family(self, name: str) -> Catalogue | None:
        """Return the rules of one file; ``None`` if there is no such file."""
        if name not in self._read:
            if name not in self.families:
                return None
            file = name + _SUFFIX
            tables = _parsed(os.path.join(self._folder, file))
            misplaced = [code for code in tables if _family(code) != name]
            if misplaced:
                raise RuleError(f"{file}: rule {misplaced[0]} belongs in another table")
            self._read[name] = Catalogue.from_tables(tables)
        return self._read[name]


def _parsed(file: str) -> Mapping[str, object]:
    import tomli  # Imported here: a session without findings does not need the parser.

    try:
        with open(file, "rb") as opened:
            return tomli.load(opened)
    except ValueError as error:
        raise RuleError(f"{file}: not readable as TOML: {error}; {_DAMAGED}") from None
    except OSError as error:
        raise RuleError(f"{file}: {error.strerror}; {_DAMAGED}") from None


class _TableValues(Mapping[str, T]):
    """The entries of all tables, under keys that begin with the code of a rule."""

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
    """Return the file name of a rule's family: ``proto`` for ``PROTO-007`` and for ``PROTO-007/R-008``."""
    return key.partition("-")[0].lower()
