"""Find and load the rule tables that ship with mcpproxy.

A table is read when somebody asks for a rule of its family: a session that breaks nothing reads none.

To parse all tables takes longer than Python and a command to start. So in an installed package they are
modules in ``mcpproxy/_rules``. In a checkout they are TOML in ``rules/`` beside it, and imported as modules
are: compiled once and kept in ``__pycache__``, where Python sees to it that nothing outdated is used.
"""

import os
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from importlib.machinery import SourceFileLoader
from types import CodeType
from typing import Any, Final, TypeVar

from mcpproxy.protocol.rules import Catalogue, RuleError

_HERE: Final = os.path.dirname(os.path.realpath(__file__))

T = TypeVar("T")


def rules_folder() -> str:
    """The folder of the built-in rule tables."""
    installed = os.path.join(_HERE, "_rules")
    return installed if os.path.isdir(installed) else os.path.join(os.path.dirname(_HERE), "rules")


@cache
def load() -> Catalogue:
    """The built-in catalogue.

    Asking it for a rule raises ``RuleError`` if the table of that family is broken.
    """
    return read(rules_folder())


def read(folder: str) -> Catalogue:
    """The catalogue of the tables in ``folder``, one family a file (``proto.toml``: ``PROTO-001`` …)."""
    tables = _Tables(folder)
    return Catalogue(_Shelf(tables, "rules"), _Shelf(tables, "requirements"))


class _Tables:
    """The files of a folder, each read once."""

    def __init__(self, folder: str) -> None:
        self._folder: Final = folder
        self._read: Final[dict[str, Catalogue]] = {}

    @cached_property
    def families(self) -> tuple[str, ...]:
        return tuple(sorted(self._files))

    @cached_property
    def _files(self) -> dict[str, str]:
        """The name of a family -> its file."""
        files = (os.path.splitext(name) for name in os.listdir(self._folder))
        return {name: name + suffix for name, suffix in files if suffix in _LOADERS and name[0] != "_"}

    def family(self, name: str) -> Catalogue | None:
        """The rules of one file; ``None`` if there is no such file."""
        if name not in self._read:
            file = self._files.get(name)
            if file is None:
                return None
            tables = _imported(os.path.join(self._folder, file))
            strangers = [code for code in tables if _family(code) != name]
            if strangers:
                raise RuleError(f"{file}: rule {strangers[0]} belongs into another table")
            self._read[name] = Catalogue.from_tables(tables)
        return self._read[name]


def _imported(file: str) -> dict[str, object]:
    """What a table says, as ``tomllib`` reads it."""
    code: Any = _LOADERS[os.path.splitext(file)[1]]("", file).get_code("")
    module: dict[str, Any] = {}
    exec(code, module)
    return module["TABLES"]


class _TomlLoader(SourceFileLoader):
    """Takes a table for the source of a module that holds it as ``TABLES``."""

    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> CodeType:
        import tomllib

        # Texts and truth values are all that a table has, so it is a literal of Python, too.
        return compile(f"TABLES = {tomllib.loads(data.decode())!r}", path, "exec", dont_inherit=True)


_LOADERS: Final = {".toml": _TomlLoader, ".py": SourceFileLoader}


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
