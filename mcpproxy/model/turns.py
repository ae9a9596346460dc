"""One form for requests to language models and for their answers, as far as tools are concerned.

Each dialect (``model.dialects``) reads its own JSON into these classes. A ``pointer`` is the JSON pointer
(RFC 6901) to the place in the body from which a value was read.
"""

from typing import Literal, TypeAlias

from mcpproxy.base.slotted import slotted
from mcpproxy.protocol.jsonrpc import JSON

ContentKind: TypeAlias = Literal["text", "image", "audio", "file", "reference", "other"]


@slotted(frozen=True)
class OfferedTool:
    """A tool that the model may call.

    ``namespace`` is the group that the request puts it in, empty if it is in none. ``schema`` is the JSON
    Schema of its arguments, ``None`` if it has none. A ``deferred`` tool is known to the service, but comes
    into the prompt only when the model searches for it.
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

    ``arguments`` is the JSON value that the model gave, or its text if that is not JSON (``is_json`` is then
    false). ``id`` is empty if the dialect gives none.
    """

    name: str
    arguments: JSON
    pointer: str
    id: str = ""
    namespace: str = ""
    is_json: bool = True


@slotted(frozen=True)
class Content:
    """A piece of content: a text, a file's bytes, a reference, or a piece of an unknown type (``other``).

    ``text`` is the text, or what a ``reference`` refers to. ``mime`` is the media type. ``size`` in bytes and
    ``digest`` (SHA-256 in hexadecimal) are of the decoded bytes, so that a picture can be recognised in
    another encoding. A member that is not known is empty or 0.
    """

    kind: ContentKind
    text: str = ""
    mime: str = ""
    size: int = 0
    digest: str = ""


@slotted(frozen=True)
class ModelResult:
    """The result that the model was given for a call.

    ``call_id`` is empty if only ``name``, the tool's name, identifies the call. ``failed`` is ``None`` if the
    result does not tell whether the call failed.
    """

    call_id: str
    name: str
    content: tuple[Content, ...]
    pointer: str
    failed: bool | None = None


@slotted(frozen=True)
class ModelRequest:
    """A request: the tools that it offers, and the conversation so far, which each request sends again.

    ``texts`` are all texts of the prompt outside of results: some hosts put a server's instructions into the
    system prompt, some into a turn of the user. ``beside`` are the pictures, files and pieces of unknown
    types outside of results. A host puts pictures there if the dialect cannot carry them in a result.
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
    """Tokens as the service counts them. ``input`` includes the ``cached`` ones, read from a cache."""

    input: int = 0
    output: int = 0
    cached: int = 0


@slotted(frozen=True)
class ModelAnswer:
    """An answer of the model. ``ending`` is why it ended, in the dialect's words, empty if that is not given.

    ``whole`` is false if the stream was cut before its end.
    """

    calls: tuple[ModelCall, ...] = ()
    text: str = ""
    usage: Usage | None = None
    model: str = ""
    ending: str = ""
    whole: bool = True


@slotted(frozen=True)
class NamedPlace:
    """A place in a request that a service names in its error.

    ``tool`` is the pointer to a tool of the request. ``within`` is the place inside that tool, as the service
    writes it (``custom.input_schema``), or in dots if it writes a list of steps; empty for the whole tool.
    ``said`` is the line of the message that names the place, or if ``param`` names it, the whole message.
    """

    tool: str
    within: str
    said: str


@slotted(frozen=True)
class ServiceRefusal:
    """Why the service refused a request: the ``message`` of its error, the first 4,000 characters of it.

    ``code`` is the service's word for the kind of error, empty if it gives none. An error names a tool by its
    place in the request or by its name: ``places`` has the first place in each tool. ``name`` is the
    name of a tool, empty if no known wording gives one, and ``within`` the place inside that tool, in dots.
    """

    message: str
    code: str = ""
    places: tuple[NamedPlace, ...] = ()
    name: str = ""
    within: str = ""
