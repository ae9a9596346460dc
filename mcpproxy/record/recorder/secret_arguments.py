"""Mask the secrets among the arguments of a command before the command is recorded or shown.

The server gets its arguments unchanged. In recordings, lists and reports these are masked:

- the value of an option whose name indicates a secret (``--api-key X``, ``--token=X``), also within an
  argument with spaces, such as a shell command;
- the value of an assignment to such a name (``API_KEY=X``, also after ``-e`` and ``--env``);
- header fields (``-H 'Authorization: Bearer X'``), as in a recording of HTTP;
- the user, the password and secret parameters in URLs;
- JSON members with such names, and keys of known providers, recognised by their format, anywhere.

The names are in ``mcpproxy.base.secret_names``, the formats in ``mcpproxy.base.secret_values``.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from mcpproxy.base.patterns import pattern
from mcpproxy.base.secret_names import names_option
from mcpproxy.base.secret_values import mask_secrets
from mcpproxy.judge.session.masked_values import MARK
from mcpproxy.record.recorder.masking import Masker

_ASSIGNMENT: Final = pattern(r"(-{0,2}[A-Za-z_][\w.-]*)=(.*)", re.DOTALL)
_HEADER: Final = pattern(r"([A-Za-z][A-Za-z0-9_-]*)(:\s*)(?!//)(.+)", re.DOTALL)
_IN_TEXT: Final = pattern(
    r"(?<![\w-])(--?[A-Za-z][\w-]*)([ =]+)(\"[^\"]*\"|'[^']*'|[^\s\"';|&-][^\s\"';|&]*)"
)
"""An option and its value within a shell command."""


def masked(command: Sequence[str], key: bytes) -> tuple[str, ...]:
    """Return ``command`` with its secrets masked. With one ``key``, equal secrets get equal masks."""
    masker = Masker(key)
    return tuple(
        mask_arguments(command, ArgumentMasking(masker, names_option, masker.value, secret_texts(masker)))
    )


def shown(command: Sequence[str]) -> str:
    """Return a command with its secrets masked, as one line for a report."""
    return " ".join(masked(command, os.urandom(32)))


class ArgumentMasking(NamedTuple):
    """The functions that ``mask_arguments`` uses.

    ``credentials`` masks URLs, headers and JSON, ``names_secret`` says whether a name is that of a secret,
    ``whole`` masks a value completely, and ``text`` masks the secrets within a text.
    """

    credentials: Masker
    names_secret: Callable[[str], bool]
    whole: Callable[[str], str]
    text: Callable[[str], str]


def mask_arguments(command: Sequence[str], masking: ArgumentMasking) -> Iterator[str]:
    """Yield the arguments of ``command`` with their secrets masked."""
    is_value = False  # whether the argument is the value of a secret option
    for argument in command:
        if is_value and not argument.startswith("-"):
            yield masking.whole(argument)
        else:
            yield _mask_argument(argument, masking)
        is_value = argument.startswith("-") and "=" not in argument and _is_secret(argument, masking)


def secret_texts(masker: Masker) -> Callable[[str], str]:
    """Return a function that masks the secrets with a known format in a text."""

    def mask(value: str) -> str:
        return value if MARK in value else masker.value(value)

    return lambda argument: mask_secrets(argument, mask)


def _is_secret(option: str, masking: ArgumentMasking) -> bool:
    return masking.names_secret(option.lstrip("-"))


def _mask_argument(argument: str, masking: ArgumentMasking) -> str:
    """Return an argument with its secrets masked."""
    if "=" in argument and (match := _ASSIGNMENT.fullmatch(argument)):
        name, value = match.groups()
        return (
            f"{name}={masking.whole(value) if _is_secret(name, masking) else _mask_argument(value, masking)}"
        )
    if argument.startswith(("{", "[")):
        raw = argument.encode("utf-8", "surrogateescape")
        argument = masking.credentials.body(raw).decode("utf-8", "surrogateescape")
    elif ":" in argument and (match := _HEADER.fullmatch(argument)):
        name, colon, value = match.groups()
        [(_, masked_value)] = masking.credentials.headers(((name, value),))
        argument = name + colon + masked_value
    elif " " in argument:
        argument = _IN_TEXT.sub(lambda match: _mask_option(match, masking), argument)
    return masking.text(masking.credentials.url(argument))


def _mask_option(match: re.Match[str], masking: ArgumentMasking) -> str:
    name, between, value = match.groups()
    return f"{name}{between}{masking.whole(value)}" if _is_secret(name, masking) else match[0]
