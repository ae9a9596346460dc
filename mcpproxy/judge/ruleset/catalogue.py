"""Find and load the rule tables that ship with mcpproxy.

The tables are TOML files, one for each family of rules. In a checkout they are in ``rules/`` beside the
package, and in an installed package in ``mcpproxy/_rules``. Parsing all of them takes longer than starting
Python and a command. So each file is read when a rule of its family is first needed, and judging a session
without findings reads none.
"""

import os
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from typing import Final, TypeVar

from mcpproxy.protocol.rules import Catalogue, RuleError, family

_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))

_SUFFIX: Final = ".toml"

_INSTALL_AGAIN: Final = "the tables that ship with mcpproxy are damaged: install it again"

T = TypeVar("T")


def rules_folder() -> str:
    """Return the folder of the built-in rule tables.

    ``importlib.resources`` is not used, because importing it takes longer than importing ``tomli``.
    """
    installed = os.path.join(_PACKAGE, "_rules")
    return installed if os.path.isdir(installed) else os.path.join(os.path.dirname(_PACKAGE), "rules")


@cache
def load() -> Catalogue:
    """Return the built-in catalogue.

    Reading from it raises ``RuleError`` if a table that is needed cannot be read or is invalid.
    """
    return read(rules_folder())


def read(folder: str) -> Catalogue:
    """Return the catalogue of ``folder``, which has one file for each family (such as ``proto.toml``).

    As for ``load``, errors in the files are raised when the catalogue is read from.
    """
    files = _RuleFiles(folder)
    return Catalogue(_LazyTable(files, "rules"), _LazyTable(files, "requirements"))


class _RuleFiles:
    """The TOML files of a folder, each read at most once."""

    def __init__(self, folder: str) -> None:
        self._folder: Final = folder
        self._catalogues: Final[dict[str, Catalogue]] = {}  # by family, of the files read so far

    @cached_property
    def families(self) -> tuple[str, ...]:
        """The names of the files without their suffix.

        Raises:
            RuleError: the folder cannot be read.
        """
        try:
            names = sorted(os.listdir(self._folder))
        except OSError as error:
            raise RuleError(f"{self._folder}: {error.strerror}; {_INSTALL_AGAIN}") from None
        return tuple(name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))

    def catalogue_of(self, name: str) -> Catalogue | None:
        """Return the catalogue of the family ``name``; ``None`` if there is no such family.

        Raises:
            RuleError: its file is invalid, or the folder cannot be read.
        """
        if name not in self._catalogues:
            if name not in self.families:
                return None
            file = name + _SUFFIX
            tables = parse_toml(os.path.join(self._folder, file))
            misplaced = [code for code in tables if family(code).lower() != name]
            if misplaced:
                raise RuleError(f"{file}: rule {misplaced[0]} belongs in another table")
            self._catalogues[name] = Catalogue.from_tables(tables)
        return self._catalogues[name]


def parse_toml(file: str) -> Mapping[str, object]:
    """Return the content of a TOML file that ships with mcpproxy.

    Raises:
        RuleError: it cannot be read, or is not TOML.
    """
    import tomli  # Imported here: a session without findings does not need the parser.

    try:
        with open(file, "rb", buffering=0) as stream:
            return tomli.loads(stream.read().decode())
    except ValueError as error:
        raise RuleError(f"{file}: not readable as TOML: {error}; {_INSTALL_AGAIN}") from None
    except OSError as error:
        raise RuleError(f"{file}: {error.strerror}; {_INSTALL_AGAIN}") from None


class _LazyTable(Mapping[str, T]):
    """One attribute of ``Catalogue`` (``rules`` or ``requirements``) for all families together.

    A key begins with the name of its family, so a lookup reads only the file of that family.
    """

    def __init__(self, files: _RuleFiles, attribute: str) -> None:
        self._files: Final = files
        self._attribute: Final = attribute

    def __getitem__(self, key: str) -> T:
        catalogue = self._files.catalogue_of(family(key).lower())
        if catalogue is None:
            raise KeyError(key)
        return self._entries(catalogue)[key]

    def __iter__(self) -> Iterator[str]:
        for name in self._files.families:
            if catalogue := self._files.catalogue_of(name):
                yield from self._entries(catalogue)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _entries(self, catalogue: Catalogue) -> Mapping[str, T]:
        return getattr(catalogue, self._attribute)
