"""Names of tools that look equal but are different, on several servers of one client.

Two names are compared in the compatibility form of Unicode (NFKC), without invisible characters. Letters of
different scripts that look alike, such as the Latin and the Cyrillic a, are different in that form: which of
them look alike depends on the font, so they are not reported.

Source: https://www.unicode.org/reports/tr39/#Confusable_Detection
"""

import unicodedata
from collections.abc import Callable

from mcpproxy.base.slotted import slotted
from mcpproxy.judge.checks.engine.context import MessageContext
from mcpproxy.judge.checks.engine.rows import RuleFamily, StateUpdate
from mcpproxy.judge.checks.security.characters import UNSEEN
from mcpproxy.judge.session.frame import SERVER
from mcpproxy.judge.session.history import History
from mcpproxy.protocol.jsonrpc import Response
from mcpproxy.protocol.message_parts import member


@slotted(frozen=True)
class SeenName:
    """The name of a listed tool: the frame, the JSON Pointer, and the revisions that may apply."""

    name: str
    seq: int
    pointer: str
    revisions: tuple[str, ...]


def skeleton(name: str) -> str:
    """Return the form in which names are compared: NFKC, without invisible characters."""
    return UNSEEN.sub("", unicodedata.normalize("NFKC", name))


def collector(receive: Callable[[SeenName], None]) -> RuleFamily:
    """Make a family without checks that calls ``receive`` with the name of every listed tool."""

    def collect(context: MessageContext[Response], history: History) -> None:
        tools = member(context.message.result, "tools")
        for index, tool in enumerate(tools if isinstance(tools, list) else ()):
            name = member(tool, "name")
            if isinstance(name, str):
                pointer = f"{context.at}/result/tools/{index}/name"
                receive(SeenName(name, context.seq, pointer, context.candidates))

    return RuleFamily(updates=(StateUpdate(collect, (Response,), ("tools/list",), sender=SERVER),))
