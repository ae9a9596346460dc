"""Hypothesis strategies for everything that a trace can contain."""

import json
from typing import get_args

from hypothesis import strategies as st

from mcpproxy.judge.session.frame import (
    Blame,
    Close,
    Ending,
    Eof,
    ExchangeEnd,
    Finding,
    Frame,
    Gap,
    Note,
    Opaque,
    RequestHead,
    ResponseHead,
    Sender,
    Severity,
    Signal,
    SseEvent,
    Stderr,
)
from mcpproxy.judge.session.outcomes import CallCounts
from mcpproxy.record.trace.records import Encoded, Header, Tally

times = st.integers(-(2**62), 2**62)
counts = st.integers(0, 2**62)
strings = st.text(st.characters(exclude_categories=[]), max_size=20)  # lone surrogates too
senders = st.sampled_from(get_args(Sender))

JSONISH = [
    b'{"jsonrpc":"2.0","id":1,"method":"ping"}',
    b' {"a" : 1, "a":18446744073709551616}\t',
    b'{"jsonrpc":"2.0","id":1,"result":{}}\r',
    b'"\\ud800"',
    b"[]",
    b"null",
    b"NaN",
    b"[" * 5000,
    b"[" * 5000 + b"]" * 5000,
    '"ä\u2028"'.encode(),
    b'\xef\xbb\xbf{"id":1}',
    b'","message":{}}',
    b"",
]
"""Lines that are JSON, nearly JSON, and JSON that not every parser reads."""

raws = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(JSONISH),
    st.text(max_size=20).map(lambda text: text.encode("utf-8")),
)
lines = raws.filter(lambda raw: b"\n" not in raw)

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
members = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | values,
        "id": values,
        "method": st.sampled_from(["ping", "notifications/x"]) | values,
        "params": values,
        "result": values,
        "message": values,
    },
)


def compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def spaced(value: object) -> bytes:
    return json.dumps(value).encode()


def twice(one: object, other: object) -> bytes:
    return b'{"method":%b,"method":%b}' % (compact(one), compact(other))


messages = st.one_of(
    st.builds(compact, members),
    st.builds(spaced, members | st.lists(members, max_size=2)),
    st.builds(twice, values, values),
)
"""JSON-RPC messages, right and wrong, as peers of several kinds write them."""

frames = st.builds(
    Frame,
    st.integers(0, 2**62),
    senders,
    raws,
    times,
    st.booleans(),
    st.booleans(),
    by_proxy=st.booleans(),
    refused=st.booleans(),
)
numbers = st.integers(1, 2**62)
fields = st.lists(st.tuples(strings, strings), max_size=3).map(tuple)
sse_events = st.builds(
    SseEvent, raws, st.none() | raws, st.none() | strings, st.none() | strings, st.none() | counts
)
http_frames = st.builds(
    Frame,
    numbers,
    senders,
    raws,
    times,
    st.booleans(),
    st.booleans(),
    numbers,
    numbers,
    st.none() | sse_events,
    st.booleans(),
)
http_events = st.one_of(
    http_frames,
    st.builds(
        RequestHead, numbers, numbers, numbers, strings, strings, fields, st.booleans(), strings, times
    ),
    st.builds(
        ResponseHead, numbers, numbers, numbers, counts, fields, strings, strings, st.booleans(), times
    ),
    st.builds(
        ExchangeEnd, numbers, numbers, st.booleans(), st.none() | st.sampled_from(get_args(Blame)), times
    ),
    st.builds(Opaque, numbers, senders, counts, strings, times),
    st.builds(Note, counts, strings, strings, times),
    st.builds(Encoded, numbers, numbers, senders, raws, times),
)
events = st.one_of(
    frames,
    http_events,
    st.builds(Stderr, raws, times, st.booleans()),
    st.builds(Eof, senders, times),
    st.builds(Signal, strings, times),
    st.builds(Gap, strings, counts, counts, counts, times),
)
findings = st.builds(
    Finding,
    strings,
    st.sampled_from(get_args(Severity)),
    st.sampled_from(get_args(Blame)),
    strings,
    counts,
    st.lists(counts, max_size=3).map(tuple),
    st.none() | strings,
    st.none() | strings,
    strings,
    strings,
)
closes = st.builds(Close, st.sampled_from(get_args(Ending)), st.none() | times, st.none() | times, times)
tallies = st.builds(
    Tally,
    st.fixed_dictionaries({"client": counts, "server": counts}),
    st.fixed_dictionaries({"error": counts, "warning": counts, "info": counts}),
    st.none() | strings,
    calls=st.none() | st.builds(CallCounts, counts, counts, counts, counts, counts),
)
headers = st.builds(
    Header,
    st.just(1),
    strings,
    strings,
    st.lists(strings, max_size=4).map(tuple),
    strings,
    strings,
    counts,
    strings,
    counts,
    strings,
    strings,
    strings,
    strings,
    strings,
)
