"""Every error of ours is one that ``main`` tells in a line, and the tree in ``errors`` shows all of them."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from typing import Final

import mcpproxy
from mcpproxy import errors

TREE: Final = re.compile(r"^ {4}([ │]*)(?:[├└]── )?(\w+Error)\b", re.MULTILINE)

CONTROL: Final = {"ParserDescription", "Refusal", "Skipped", "_TooManyMasks"}
"""No errors: a parser, an answer to give, a probe that does not apply, a body that is masked as a whole."""

INSIDE: Final = {"StateError"}
"""What never leaves the recorder: it starts anew from the recording instead."""


def of_ours() -> Iterator[type[BaseException]]:
    """The exceptions that a module of mcpproxy defines."""
    for module in pkgutil.walk_packages(mcpproxy.__path__, "mcpproxy."):
        if module.name.endswith("__main__"):
            continue
        for name, found in vars(importlib.import_module(module.name)).items():
            if not isinstance(found, type) or not issubclass(found, BaseException):
                continue
            if found.__module__ == module.name and name not in CONTROL | INSIDE:
                yield found


def test_every_error_of_ours_is_a_mcpproxy_error() -> None:
    assert [found for found in of_ours() if not issubclass(found, errors.McpProxyError)] == []


def test_the_tree_shows_every_error_under_its_base() -> None:
    assert errors.__doc__ is not None
    bases: dict[str, str] = {}
    above: list[str] = []
    for found in TREE.finditer(errors.__doc__):
        depth = 0 if found[2] == "McpProxyError" else len(found[1]) // 4 + 1
        above[depth:] = [found[2]]
        bases[found[2]] = above[depth - 1] if depth else "Exception"
    assert bases == {error.__name__: error.__bases__[0].__name__ for error in of_ours()}
