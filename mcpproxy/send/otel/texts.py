"""Texts of peers as values of attributes: escaped, shortened, and masked unless the user keeps secrets."""

import json
from typing import Final

from mcpproxy.base.visible import visible
from mcpproxy.protocol.jsonrpc import JSON
from mcpproxy.record.trace.json_masking import names_credential, secrets_masked

LONGEST: Final = 1024
LONGEST_CONTENT: Final = 8192
"""How many characters a text, and the arguments or the result of a call, may have."""

MASK: Final = "[masked]"


class Texts:
    """Makes texts safe. With ``masks``, secrets become ``[masked]``.

    The mask is always the same, so a span that is made again has the same bytes.
    """

    def __init__(self, *, masks: bool) -> None:
        self._masks: Final = masks

    def short(self, text: str, longest: int = LONGEST) -> str:
        """Return a text of at most ``longest`` characters.

        The whole text is masked before it is cut: no pattern recognises a secret that was cut in two.
        """
        if self._masks:
            text = secrets_masked(text, _mask)
        text = visible(text[: longest + 1])
        return text[: longest - 1] + "…" if len(text) > longest else text

    def value(self, name: str, value: JSON) -> str:
        """Return the value of a member: a text shortened, another value as JSON, a credential as its mask."""
        text = value if isinstance(value, str) else json.dumps(value)
        if self._masks and names_credential(name, text):
            return MASK
        return self.short(value) if isinstance(value, str) else self.content(value)

    def content(self, value: JSON) -> str:
        """Return a JSON value as a text of at most ``LONGEST_CONTENT`` characters."""
        return self.short(json.dumps(value, ensure_ascii=False, separators=(",", ":")), LONGEST_CONTENT)


def _mask(value: str) -> str:
    del value
    return MASK
