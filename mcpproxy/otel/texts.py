"""Texts of peers as values of attributes: escaped, shortened, and without secrets."""

import json
import re
from typing import Final

from mcpproxy.base.secret_values import PATTERNS
from mcpproxy.base.visible import visible
from mcpproxy.protocol.jsonrpc import JSON

LONGEST: Final = 1024
LONGEST_CONTENT: Final = 8192
"""How many characters a text, and the arguments or the result of a call, may have."""


class Texts:
    """Makes texts safe. With ``masks``, what looks like a secret becomes ``[masked]``.

    The mask is always the same, so a span that is made again has the same bytes.
    """

    def __init__(self, *, masks: bool) -> None:
        self._masks: Final = masks

    def short(self, text: str, longest: int = LONGEST) -> str:
        """Return a text of at most ``longest`` characters.

        The whole text is masked before it is cut: no pattern recognises a secret that was cut in two.
        """
        if self._masks:
            for pattern in PATTERNS:
                text = pattern.sub(_masked, text)
        text = visible(text[: longest + 1])
        return text[: longest - 1] + "…" if len(text) > longest else text

    def content(self, value: JSON) -> str:
        """Return a JSON value as a text of at most ``LONGEST_CONTENT`` characters."""
        return self.short(json.dumps(value, ensure_ascii=False, separators=(",", ":")), LONGEST_CONTENT)


def _masked(match: re.Match[str]) -> str:
    group = next((n for n in range(1, match.re.groups + 1) if match[n] is not None), 0)
    start, end = (index - match.start() for index in match.span(group))
    return f"{match[0][:start]}[masked]{match[0][end:]}"
