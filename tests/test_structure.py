"""The count of places finds what it says, and runs on this checkout."""

import ast
from pathlib import Path

import pytest

from tests.structure import DECISIONS, OTHER_DECISIONS, counted, places, table

CHECKOUT = Path(__file__).parents[1]

EXAMPLES = [
    ("name of a call", 'def f(params): return params["name"]', 1),
    ("name of a call", 'def f(ask): return member(ask.params, "uri")', 1),
    ("name of a call", 'MEMBERS = ("name", "uri", "taskId")', 1),
    ("name of a call", 'def f(tool): return tool["name"]', 0),
    ("request of an answer", "def f(request): open[type(request.id), request.id] = request", 1),
    ("request of an answer", "def f(id): sessions[id] = 1", 0),
    ("request of an answer", "def f(id): open_requests[id] = 1", 1),
    ("request of an answer", "def f(key): by_key[client][key] = 1", 1),
    ("request of an answer", "def f(key): last_by_key[key] = 1", 0),
    ("request of an answer", "def f(key): delivered.setdefault(key, 1)", 0),
    ("request of an answer", "def f(token): tokens[type(token), token] = 1", 0),
    ("messages of a frame", "def f(m): return m.items if isinstance(m, Batch) else (m,)", 1),
    ("messages of a frame", "def f(m): return isinstance(m, Batch)", 0),
    ("required HTTP headers of a request", 'def f(m): return [("Mcp-Method", m)]', 1),
    ("required HTTP headers of a request", 'def f(fields): return fields["mcp-method"]', 0),
    ("JSON-RPC error of ours", """def f(): return b'{"jsonrpc":"2.0","error":{"code":1}}'""", 1),
    ("JSON-RPC error of ours", 'def f(): return {"error": {"code": 1, "message": "no"}}', 1),
    ("JSON-RPC error of ours", 'def f(error): return error["code"], error["message"]', 0),
    ("JSON-RPC error of ours", 'def f(): return {"do": "error", "code": 1, "message": "no"}', 0),
    ("pause of a message", "def f(): return HeldMessage()", 1),
    ("pause of a message", "def f(): return HeldMessage", 0),
    ("line before a chunk", 'LINE = pattern(rb"([0-9A-Fa-f]{1,15});?")', 1),
    ("line before a chunk", 'COLOUR = pattern(r"#[0-9A-Fa-f]{6}")', 0),
    ("JSON form of a call", 'def f(call): return {"method": call.method, "outcome": call.outcome}', 1),
    ("JSON form of a call", "def f(call): return Row(method=call.method, latency_ms=1)", 1),
    ("JSON form of a call", 'def f(id): return {"jsonrpc": "2.0", "id": id, "method": "ping"}', 0),
]


@pytest.mark.parametrize(("decision", "source", "number"), EXAMPLES)
def test_a_pattern_finds_its_places_and_no_neighbours(decision: str, source: str, number: int) -> None:
    assert len(places(ast.parse(source), DECISIONS[decision])) == number


def test_every_pattern_has_an_example_and_a_neighbour() -> None:
    assert {name for name, _, number in EXAMPLES if number} == set(DECISIONS)
    assert {name for name, _, number in EXAMPLES if not number} == set(DECISIONS)


def test_a_function_is_one_place_however_often_it_decides() -> None:
    source = 'def f(params):\n    return params["name"] or params["uri"]\n'
    assert places(ast.parse(source), DECISIONS["name of a call"]) == [2]


def test_what_is_no_such_decision_would_be_found() -> None:
    for decision, modules in OTHER_DECISIONS.items():
        for path in modules:
            assert places(ast.parse((CHECKOUT / path).read_bytes()), DECISIONS[decision]), path


def test_this_checkout_is_counted() -> None:
    structure = counted(CHECKOUT)
    assert all(structure.counts.values())
    assert all(structure.places.values())
    assert f"| modules | {structure.counts['modules']} |" in list(table(structure))
