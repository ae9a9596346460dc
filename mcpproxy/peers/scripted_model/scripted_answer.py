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
    """A whole answer. ``number`` goes into its ids."""

    number: str
    text: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    wait_s: float = 0.0


@slotted(frozen=True)
class ScriptedFailure:
    """An answer that fails.

    ``status`` is its HTTP status, ``None`` if the answer breaks off after some text.
    """

    status: int | None
    message: str
    wait_s: float


Scripted: TypeAlias = ScriptedAnswer | ScriptedFailure
