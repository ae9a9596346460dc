"""The text of a configuration file with the positions of its values, and text to insert into it."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal

from mcpproxy.hosts.errors import HostFileError, UnreadableTextError
from mcpproxy.hosts.jsonc import read_jsonc
from mcpproxy.hosts.text_nodes import Node
from mcpproxy.hosts.toml_nodes import read_toml
from mcpproxy.hosts.yaml_nodes import read_yaml

Language = Literal["json", "toml", "yaml"]

_READERS: Final[Mapping[Language, Callable[[str], Node]]] = {
    "json": read_jsonc,
    "toml": read_toml,
    "yaml": read_yaml,
}
_LANGUAGE_NAMES: Final[Mapping[Language, str]] = {"json": "JSON", "toml": "TOML", "yaml": "YAML"}


def language_of(path: str) -> Language:
    """Return the language of a file by the end of its name; JSON if the end is unknown."""
    name = path.lower()
    if name.endswith(".toml"):
        return "toml"
    return "yaml" if name.endswith((".yaml", ".yml")) else "json"


class Document:
    """The text of a file, and the values in it.

    Raises:
        HostFileError: the text is not UTF-8, or cannot be read in its language.
    """

    def __init__(self, path: str, data: bytes, language: Language) -> None:
        self.language: Final = language
        try:
            self.text: Final = data.decode()
        except UnicodeDecodeError as fault:
            raise HostFileError(path, f"not UTF-8 (byte {fault.start})", "save it as UTF-8") from None
        try:
            self.root: Final = _READERS[language](self.text)
        except UnreadableTextError as fault:
            line = self.text.count("\n", 0, fault.index) + 1
            column = fault.index - self.text.rfind("\n", 0, fault.index)
            place = f"{path}:{line}:{column}" if fault.index else path
            fact = f"not readable as {_LANGUAGE_NAMES[language]} ({fault.fact})"
            raise HostFileError(place, fact, "correct or simplify it first") from None

    @property
    def line_end(self) -> str:
        """The line end for new lines: CRLF if the text has one, otherwise LF."""
        return "\r\n" if "\r\n" in self.text else "\n"

    def token(self, node: Node) -> str:
        """Return the text of a string value, in a form that may be an item of a list."""
        if self.language == "yaml":  # not every unquoted scalar may be an item of a list
            return quoted(str(node.scalar))
        return self.text[node.start : node.end]

    def member(self, key: str, tokens: Sequence[str]) -> str:
        """Return the text of the member ``key`` whose value is a list of ``tokens``."""
        value = f"[{', '.join(tokens)}]"
        match self.language:
            case "json":
                return f"{quoted(key)}: {value}"
            case "toml":
                return f"{key} = {value}"
            case "yaml":
                return f"{key}: {value}"


def quoted(text: str) -> str:
    """Return a string in double quotes, valid in all three languages, but for U+0080 to U+009F in YAML."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
