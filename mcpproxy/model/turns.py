"""One form for a request to a language model and for its answer, as far as tools go.

Each dialect (``model.dialects``) reads its own JSON into these classes. A pointer (RFC 6901) leads to the
place in the body where something was read.
"""

from typing import Literal, TypeAlias

from mcpproxy.base.slotted import slotted
from mcpproxy.protocol.jsonrpc import JSON

ContentKind: TypeAlias = Literal["text", "image", "audio", "file", "reference", "other"]


@slotted(frozen=True)
class OfferedTool:
    """A tool that the model may call.

    ``namespace`` is the group that the request puts it in, empty without one. ``schema`` is that of its
    arguments, ``None`` if it has none. A ``deferred`` tool is known to the service and not in the prompt
    until the model has searched for it.
    """

    name: str
    pointer: str
    namespace: str = ""
    description: str | None = None
    schema: JSON = None
    deferred: bool = False


@slotted(frozen=True)
class ModelCall:
    """A call that the model asked for.

    ``arguments`` is the JSON value that it gave; the text itself, with ``is_json`` false, if that is no JSON.
    ``id`` is empty where a dialect gives none.
    """

    name: str
    arguments: JSON
    pointer: str
    id: str = ""
    namespace: str = ""
    is_json: bool = True


@slotted(frozen=True)
class Content:
    """A piece of a result. ``text`` is that of a text; ``size`` and ``digest`` are those of decoded bytes.

    ``digest`` is the SHA-256 in hexadecimal, so that one picture can be found again in another encoding. The
    text of a ``reference`` is what it refers to.
    """

    kind: ContentKind
    text: str = ""
    mime: str = ""
    size: int = 0
    digest: str = ""


@slotted(frozen=True)
class ModelResult:
    """What the model was given for a call.

    ``call_id`` is empty where only ``name`` says which call it was. ``failed`` is ``None`` in a dialect that
    does not say whether the call failed.
    """

    call_id: str
    name: str
    content: tuple[Content, ...]
    pointer: str
    failed: bool | None = None


@slotted(frozen=True)
class ModelRequest:
    """A request: the tools that it offers, and the whole conversation so far as it is sent again.

    ``texts`` are all texts of the prompt outside of results: some hosts put what a server says of itself into
    the system's part, some into a turn of the user. ``beside`` are the pictures and files outside of results,
    where a host puts those for which the dialect has no place in a result.
    """

    dialect: str
    model: str
    tools: tuple[OfferedTool, ...] = ()
    calls: tuple[ModelCall, ...] = ()
    results: tuple[ModelResult, ...] = ()
    texts: tuple[str, ...] = ()
    beside: tuple[Content, ...] = ()


@slotted(frozen=True)
class Usage:
    """Tokens as the service counts them, those read from a cache among ``input``."""

    input: int = 0
    output: int = 0
    cached: int = 0


@slotted(frozen=True)
class ModelAnswer:
    """What the model answered. ``whole`` is false if the stream was cut before its end."""

    calls: tuple[ModelCall, ...] = ()
    text: str = ""
    usage: Usage | None = None
    model: str = ""
    ending: str = ""
    whole: bool = True


@slotted(frozen=True)
class NamedPlace:
    """A place that a service names: the pointer to a tool of the request, and the rest as it writes it.
    ``said`` is the line of its error that says so."""

    tool: str
    within: str
    said: str


@slotted(frozen=True)
class ServiceRefusal:
    """Why the service refused a request.

    ``places`` has the first place in each tool that it names by its place. If it names none, ``name`` is the
    tool that it calls by its name, if it does so in words that are known, and ``within`` the place in it.
    """

    message: str
    code: str = ""
    places: tuple[NamedPlace, ...] = ()
    name: str = ""
    within: str = ""
