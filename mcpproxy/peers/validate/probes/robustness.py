"""Large messages, many requests at once, cancellation and unusual characters."""

import asyncio
from typing import Final

from mcpproxy.peers.validate.answers import Answer
from mcpproxy.peers.validate.connection import dumps
from mcpproxy.peers.validate.errors import GoneError, HttpStatusError, IdMismatchError, Skipped, TimedOutError
from mcpproxy.peers.validate.outcome import Conclusion
from mcpproxy.peers.validate.padding import PADDING_MEMBER, padding
from mcpproxy.peers.validate.probe import Probe, ProbeFunction, passed, remarked
from mcpproxy.peers.validate.probe_context import ProbeContext
from mcpproxy.peers.validate.probes.jsonrpc import FEATURES, answered_method, harmless_method
from mcpproxy.peers.validate.rate_limit import limit_in_error
from mcpproxy.peers.validate.reaction import check_alive, reaction, response_frame
from mcpproxy.protocol.jsonrpc import JSON
from mcpproxy.protocol.wording import shown

_AT_ONCE: Final = 50
"""How many requests are sent at once."""
_KIB: Final = 1 << 10
_SEPARATORS: Final = "a\u2028b\u2029c\u0085d\u000be"
"""Characters that some libraries treat as line breaks; in JSON they are not."""

_JSON_PARSERS: Final = "https://www.rfc-editor.org/rfc/rfc8259#section-9"
"""Where JSON says that a parser accepts all texts that conform to its grammar."""

_TOO_LARGE: Final = 413
"""The HTTP status with which a server refuses a body because of its length."""


def _message_of_size(size: int, *, is_common: bool) -> ProbeFunction:
    """Return the function of a probe that sends a message of about ``size`` bytes.

    ``is_common`` says whether clients often send messages of this size: then every refusal is an info.
    Otherwise a refusal with an error or with HTTP status 413 passes. Another status, and a connection that is
    cut off, are an info in any case.
    """

    async def run(context: ProbeContext) -> Conclusion:
        client = context.client
        what = f"a message of {size // _KIB:,} KiB"
        method = await answered_method(context)
        meta: JSON = {PADDING_MEMBER: padding(size)}
        try:
            answer = await client.request(method, {"_meta": meta})
        except IdMismatchError as refusal:
            if not refusal.is_refusal_without_id:
                raise
            await check_alive(client, what, *refusal.frames)
            text = f"{what} was refused, without its id"
            return remarked(text, refusal.frames) if is_common else passed(text, refusal.frames)
        except HttpStatusError as fault:
            text = f"{what} was refused with HTTP status {fault.status}"
            if is_common:
                return remarked(f"{text}; arguments of tools are often as large", fault.frames)
            if fault.status != _TOO_LARGE:
                return remarked(f"{text}; 413 would say why", fault.frames)
            await check_alive(client, what, *fault.frames)
            return passed(text, fault.frames)
        except GoneError as fault:
            # Over HTTP a refusal is lost if the server closes the connection with unread bytes.
            await check_alive(client, what, *fault.frames)
            text = f"{what} had its connection cut off without an answer"
            return remarked(f"{text}; if it was refused with 413, that was lost", fault.frames)
        await check_alive(client, what, *answer.frames)
        if not answer.is_error:
            return passed("answered", answer.frames)
        text = f"{what} was refused: {shown(answer.code)}, {shown(answer.error.get('message'))}"
        return remarked(text, answer.frames) if is_common else passed(text, answer.frames)

    return run


async def _separators(context: ProbeContext) -> Conclusion:
    method = await answered_method(context)
    answer = await context.client.request(method, {"_meta": {PADDING_MEMBER: _SEPARATORS}})
    if answer.is_error:
        text = f"a message with U+2028 in a string was refused: {shown(answer.error.get('message'))}"
        return Conclusion("warning", f"{text}; JSON allows it there", answer.frames, source=_JSON_PARSERS)
    return passed("answered", answer.frames)


async def _concurrent(context: ProbeContext) -> Conclusion:
    client = context.client
    methods = await _methods_that_work(context)
    pending = [await client.begin(methods[n % len(methods)]) for n in range(_AT_ONCE)]
    loop = asyncio.get_running_loop()
    deadline = loop.time() + client.timeout_s
    answers: list[Answer] = []
    for request in pending:
        remaining_s = max(deadline - loop.time(), 0.01)
        try:
            answers.append(await client.wait_for_answer(request, remaining_s))
        except TimedOutError as fault:
            text = (
                f"of {_AT_ONCE} requests at once {len(answers)} were answered within {client.timeout_s:g} s"
            )
            raise TimedOutError(text, fault.frames) from None
    for request, answer in zip(pending, answers, strict=True):
        member = request.method.partition("/")[0] if request.method.endswith("/list") else ""
        if not answer.is_error and member and member not in answer.members:
            described = f"{request.method} (id {shown(request.id)})"
            text = f"of {_AT_ONCE} requests at once, {described} got another's answer"
            return context.violation("PROTO-007/R-008", text, answer.frames)
    refused = [answer for answer in answers if answer.is_error]
    if refused:
        why = shown(refused[0].error.get("message"))
        if all(limit_in_error(answer.error) for answer in refused):
            text = (
                f"of {_AT_ONCE} requests at once {len(refused)} were refused, which any server may do: {why}"
            )
            return passed(text, refused[0].frames)
        return remarked(
            f"of {_AT_ONCE} requests at once {len(refused)} were refused: {why}", refused[0].frames
        )
    frames = [frame for answer in answers for frame in answer.frames]
    return passed(f"{_AT_ONCE} requests ({', '.join(methods)}), {_AT_ONCE} answers", tuple(frames))


async def _cancellation(context: ProbeContext) -> Conclusion:
    client = context.client
    _skip_without_cancellation(context)
    pending = await client.begin(harmless_method(context))
    cancelled = await client.notify(
        "notifications/cancelled", {"requestId": pending.id, "reason": "validate"}
    )
    ping_frame = await check_alive(client, "a cancellation", pending.seq, cancelled)
    text = (
        "it came too late, the request was answered"
        if response_frame(client, pending)
        else "the request was not answered"
    )
    return passed(text, (pending.seq, cancelled, ping_frame))


async def _cancel_unknown(context: ProbeContext) -> Conclusion:
    _skip_without_cancellation(context)
    params: JSON = {"requestId": "mcpproxy-no-such-request", "reason": "validate"}
    raw = dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
    observed = await reaction(context, raw, "a cancellation of a request that was never sent")
    if observed.answers:
        text = f"a cancellation of a request that was never sent was {observed.outcome}"
        return context.violation("RPC-015/R-017", text, observed.frames)
    return passed("ignored", observed.frames)


def _skip_without_cancellation(context: ProbeContext) -> None:
    if context.client.is_stateless and context.target.url:
        raise Skipped("requests over HTTP are cancelled by closing the connection")


async def _methods_that_work(context: ProbeContext) -> list[str]:
    """Return methods that the server does not refuse, and whose results have different members."""
    client = context.client
    first = await answered_method(context)
    methods = [f"{feature}/list" for feature in FEATURES if context.declares(feature)]
    accepted = [method for method in methods if not (await client.request(method)).is_error]
    return list(dict.fromkeys((first, *accepted)))


PROBES: Final = (
    Probe(
        "line-separators",
        "robustness",
        "U+2028, U+2029 and U+0085 in a string do not end a message.",
        _separators,
    ),
    Probe(
        "concurrent-requests",
        "robustness",
        f"{_AT_ONCE} requests at once are answered, each with its own answer.",
        _concurrent,
        rules=("PROTO-007", "RPC-007"),
    ),
    Probe(
        "cancellation",
        "sequence",
        "A request is cancelled, and the server still answers afterwards.",
        _cancellation,
        rules=("CANC-005", "CANC-010", "RPC-015"),
    ),
    Probe(
        "cancel-unknown",
        "sequence",
        "A cancellation of a request that was never sent is ignored.",
        _cancel_unknown,
        rules=("RPC-015",),
    ),
    Probe(
        "large-message",
        "robustness",
        "A message of more than 64 KiB is read.",
        _message_of_size(96 * _KIB, is_common=True),
    ),
    Probe(
        "huge-message",
        "robustness",
        "A message of 4 MiB is read, or refused with an answer.",
        _message_of_size(4096 * _KIB, is_common=False),
    ),
)
