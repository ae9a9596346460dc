"""Links from a span to the span of an earlier request that it continues.

The conventions have no names for them, so the attribute ``mcpproxy.link`` says what joins the two:
``task``, ``round`` (a request that is sent again with the input that the server asked for), ``subscription``,
``session`` (the session of a call, if the two are in different traces), ``http`` (the trace of the HTTP
request), or ``stream`` (from a GET that resumes a stream).
"""

from collections import OrderedDict
from typing import Final, TypeAlias

from opentelemetry.trace import Link, SpanContext

from mcpproxy.protocol.jsonrpc import JSONObject
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.meta_keys import RELATED_TASK_KEY

_REMEMBERED: Final = 4096
"""How many requests and events are remembered."""

_Key: TypeAlias = tuple[object, ...]


def link(context: SpanContext, what: str) -> Link:
    """Return a link to ``context``; ``what`` is the value of ``mcpproxy.link``."""
    return Link(context, {"mcpproxy.link": what})


class Links:
    """Remembers the latest requests and events that other requests may continue.

    ``session`` is the number of a session.
    """

    def __init__(self) -> None:
        self._contexts: Final[OrderedDict[_Key, SpanContext]] = OrderedDict()

    def of_request(self, session: int, method: str, target: str | None, params: JSONObject) -> list[Link]:
        """Return the links of a request to earlier requests."""
        links: list[Link] = []
        if task := self._contexts.get((session, "task", _task_named(method, params))):
            links.append(link(task, "task"))
        if "inputResponses" in params or "requestState" in params:
            key = (session, "round", method, target, _request_state(params))
            if earlier := self._contexts.pop(key, None):
                links.append(link(earlier, "round"))
        if method == "resources/unsubscribe" and (
            subscribed := self._contexts.pop((session, "subscription", target), None)
        ):
            links.append(link(subscribed, "subscription"))
        return links

    def remember_request(
        self, session: int, method: str, target: str | None, result: JSONObject, context: SpanContext
    ) -> None:
        """Remember a request if its result shows that another may continue it."""
        if (task := _task_made(method, result)) is not None:
            self._remember_context((session, "task", task), context)
        if result.get("resultType") == "input_required":
            self._remember_context((session, "round", method, target, _request_state(result)), context)
        if method == "resources/subscribe":
            self._remember_context((session, "subscription", target), context)

    def remember_event(self, session: int, id: str, context: SpanContext) -> None:
        """Remember in which span the server sent an event with this id."""
        self._remember_context((session, "event", id), context)

    def of_event(self, session: int, id: str) -> SpanContext | None:
        """Return the span in which the event with this id was sent; ``None`` if it is not remembered."""
        return self._contexts.get((session, "event", id))

    def _remember_context(self, key: _Key, context: SpanContext) -> None:
        self._contexts[key] = context
        if len(self._contexts) > _REMEMBERED:
            self._contexts.popitem(last=False)


def _task_named(method: str, params: JSONObject) -> str | None:
    """Return the id of the task that a request is about; ``None`` if it is about none."""
    related = member(params, "_meta", RELATED_TASK_KEY)
    id = params.get("taskId") if method.startswith("tasks/") else member(related, "taskId")
    return id if isinstance(id, str) else None


def _task_made(method: str, result: JSONObject) -> str | None:
    """Return the id of the task that a result announces; ``None`` if it announces none."""
    if method.startswith("tasks/"):
        return None
    id = member(result, "task", "taskId") or result.get("taskId")
    return id if isinstance(id, str) else None


def _request_state(members: JSONObject) -> str:
    state = members.get("requestState")
    return state if isinstance(state, str) else ""
