"""The configuration file of a host, with placeholders for the server of each scenario (a test of the host).

The other text stays as it is, comments included: the host reads what its user would have written.
"""

import os
import shlex
import tempfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from mcpproxy.base import files
from mcpproxy.errors import UsageError
from mcpproxy.hosts.document import Document, language_of, quoted
from mcpproxy.hosts.text_nodes import Edit, Node, edited, within
from mcpproxy.peers.client_tests.served import MODEL_PLACEHOLDER, Served, misspelt

OPTION: Final = "--config-template"

_LARGEST_BYTES: Final = 1 << 20
_STDIO: Final = ("{command}", "{args}")
_HTTP: Final = "{url}"
_EITHER: Final = "{server}"
"""The placeholders for a server: on stdio, over HTTP, and the one for both."""


@dataclass(frozen=True, slots=True)
class ConfigTemplate:
    """A template that was read; ``fill`` puts a server into it.

    ``path`` is the path of its file, and ``document`` its text and values.
    """

    path: str
    document: Document

    @classmethod
    def read(cls, path: str, transport: str, *, has_model: bool = False) -> "ConfigTemplate":
        """Read the template at ``path`` for servers on ``transport``, which is ``stdio`` or ``http``.

        ``has_model`` says whether a scripted model runs beside them.

        Raises:
            HostFileError: it is not valid in the language of its name (TOML, YAML, else JSON), or no longer
                when it is filled in.
            UsageError: it cannot be read, or its placeholders do not fit such a server.
        """
        try:
            data = files.read(path, _LARGEST_BYTES, follows=True)
        except OSError as fault:
            reason = (fault.strerror or str(fault)).lower()
            raise UsageError(OPTION, f"{path} cannot be read ({reason})", "name a file") from None
        template = cls(path, Document(path, data, language_of(path)))
        template._check_placeholders(transport, has_model=has_model)
        # Fill it on trial, so that an error is reported before anything starts.
        is_http = transport == "http"
        template.fill(Served(url="http://127.0.0.1:1/mcp") if is_http else Served(("command", "argument")))
        return template

    @contextmanager
    def copied(self, server: Served) -> Generator[str]:
        """Yield the path of a filled-in copy, of the same name, in a folder of its own.

        The folder is removed afterwards, with all that the client has put there: templates may hold secrets.

        Raises:
            HostFileError, UsageError: as in ``fill``.
        """
        with tempfile.TemporaryDirectory(prefix="mcpproxy-client-", ignore_cleanup_errors=True) as folder:
            path = os.path.join(folder, os.path.basename(self.path))
            with open(files.create(path), "wb") as file:
                file.write(self.fill(server).encode())
            yield path

    def fill(self, server: Served) -> str:
        """Return the text of the file for a server.

        Raises:
            HostFileError: the filled-in text cannot be parsed.
            UsageError: a path in the command of the server is not UTF-8, which the file has to be.
        """
        texts = {_EITHER: server.text, _HTTP: server.url}
        if server.model:
            texts[MODEL_PLACEHOLDER] = server.model
        words: dict[str, Sequence[str]] = {}
        if server.command:
            command, *arguments = server.command
            texts |= {"{command}": command, "{args}": shlex.join(arguments)}
            words = {"{args}": arguments, _EITHER: server.command}
        filled = edited(self.document.text, self._edits(self.document.root, texts, words))
        try:
            data = filled.encode()
        except UnicodeEncodeError:
            fact = "the command of the server has a path in it that is not UTF-8"
            raise UsageError(self.path, fact, "give another folder with --trace-dir") from None
        Document(f"{self.path}, filled in", data, self.document.language)
        return filled

    def _edits(
        self, root: Node, texts: Mapping[str, str], words: Mapping[str, Sequence[str]]
    ) -> Iterator[Edit]:
        """Yield the edits of the values with placeholders.

        A value that is one placeholder in ``words`` becomes items of its list; outside a list, ``{args}``
        becomes a list. In other values, the placeholders become the ``texts``.
        """
        in_list = {id(item): node for node in within(root) for item in node.items or ()}
        for node in within(root):
            if not isinstance(node.scalar, str) or not any(place in node.scalar for place in texts):
                continue
            parent, several = in_list.get(id(node)), words.get(node.scalar)
            if several is not None and parent is not None:
                text = self._separator(node, parent).join(map(quoted, several))
            elif several is not None and node.scalar != _EITHER:
                text = f"[{', '.join(map(quoted, several))}]"
            else:
                text = node.scalar
                for place, value in texts.items():
                    text = text.replace(place, value)
                text = quoted(text)
            yield Edit(node.start, node.end, text)

    def _separator(self, item: Node, parent: Node) -> str:
        """Return the separator of two items of a list."""
        if not parent.is_block:
            return ", "
        text = self.document.text
        return self.document.line_end + text[text.rfind("\n", 0, item.start) + 1 : item.start]

    def _check_placeholders(self, transport: str, *, has_model: bool) -> None:
        """Check that the template has the placeholders of a server on ``transport``, and no others.

        Raises:
            UsageError: a placeholder is missing, misspelt, or one that nothing fills in.
        """
        values = [node.scalar for node in within(self.document.root) if isinstance(node.scalar, str)]
        known = [*_STDIO, _HTTP, _EITHER]
        used = [place for place in known if any(place in value for value in values)]
        wanted = '"{command}" and "{args}"' if transport == "stdio" else f'"{_HTTP}"'
        for value in values:
            if MODEL_PLACEHOLDER in value and not has_model:
                fact = f"{MODEL_PLACEHOLDER} stands in it, and there is no model"
                raise UsageError(self.path, fact, "have one beside each server: --model")
            if guess := misspelt(value, [*known, MODEL_PLACEHOLDER]):
                raise UsageError(self.path, f"{value} names nothing of the server", f"write {guess}")
        if not used:
            raise UsageError(self.path, "no value in it names the server", f"write {wanted} where it stands")
        if len(used) == 1 and used[0] in _STDIO:
            raise UsageError(self.path, f"{used[0]} stands in it alone", f"write {wanted}")
        if wrong := [place for place in used if place in (_STDIO if transport == "http" else (_HTTP,))]:
            fact = f"{wrong[0]} stands in it, and the servers are on {transport}"
            option = "leave out --listen" if transport == "http" else "give --listen 127.0.0.1:0"
            raise UsageError(self.path, fact, f"write {wanted}, or {option}")
