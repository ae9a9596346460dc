"""An answer of the model, before it is written for one of the APIs of models (a dialect)."""

from typing import TypeAlias

from mcpproxy.base.slotted import slotted
from mcpproxy.protocol.jsonrpc import JSONObject


@slotted(frozen=True)
class ScriptedCall:
    """A call under the name and the ``namespace`` that the host offers; the latter is empty if there is none.

    ``id`` has letters, digits and ``_`` only.
    """

    id: str
    name: str
    namespace: str
    arguments: JSONObject


@slotted(frozen=True)
class ScriptedAnswer:
    """A whole answer, sent after ``wait_s`` seconds.

    ``number`` is a text that the dialects put into the ids of the answer.
    """

    number: str
    text: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    wait_s: float = 0.0


@slotted(frozen=True)
class ScriptedFailure:
    """An answer that fails, sent after ``wait_s`` seconds.

    ``status`` is its HTTP status, ``None`` if the answer breaks off after some text. ``message`` is the text
    of the error; without a status it is not sent.
    """

    status: int | None
    message: str
    wait_s: float


Scripted: TypeAlias = ScriptedAnswer | ScriptedFailure
