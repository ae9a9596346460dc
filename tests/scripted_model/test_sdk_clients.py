"""The official clients of all four interfaces talk to a scripted model, whole and as a stream."""

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from mcpproxy.peers.scripted_model.model_script import script_of
from mcpproxy.peers.scripted_model.model_server import ModelServer
from tests.scripted_model.sdk_clients import CLIENTS, Client

Start = Callable[..., ModelServer]
Connect = Callable[[type[Client], ModelServer], Client]

TOOLS: Final = ("mcp__weather__forecast", "mcp__weather__tides", "Read")
CITY: Final = {"city": "Ørsta, Møre og Romsdal", "days": [1, 2, None]}

BOTH_WAYS: Final = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
EVERY_CLIENT: Final = pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)


@pytest.fixture
def started() -> Iterator[Start]:
    servers: list[ModelServer] = []

    def start(*turns: Any) -> ModelServer:
        servers.append(ModelServer(script_of(turns)))
        servers[-1].start()
        return servers[-1]

    yield start
    for server in servers:
        server.end()


@pytest.fixture
def connect(started: Start) -> Iterator[Connect]:  # ``started`` first: clients are closed before servers end
    clients: list[Client] = []

    def made(client: type[Client], server: ModelServer) -> Client:
        clients.append(client(server.url, TOOLS))
        return clients[-1]

    yield made
    for client in clients:
        client.close()


def problems(server: ModelServer) -> list[str]:
    return [problem for state in server.player.turns for problem in state.problems()]


@BOTH_WAYS
@EVERY_CLIENT
def test_a_conversation(started: Start, connect: Connect, client: type[Client], stream: bool) -> None:
    server = started(
        {"say": "Let me look it up.", "call": "forecast", "arguments": CITY, "expect": {"equals": "sunny"}},
        {"calls": [{"call": "tides"}, {"call": "forecast", "expect": {"at": "/high", "equals": 2.5}}]},
        {"say": "It is sunny in Ørsta, and the tide is high."},
    )
    asked = connect(client, server)

    told = asked.ask(stream=stream)
    assert told.text == "Let me look it up."
    assert [call[1:] for call in told.calls] == [("mcp__weather__forecast", CITY)]

    asked.answer(["sunny"])
    told = asked.ask(stream=stream)
    assert [call[1:] for call in told.calls] == [("mcp__weather__tides", {}), ("mcp__weather__forecast", {})]

    asked.answer(["low", '{"high": 2.5}'])
    assert asked.ask(stream=stream).text == "It is sunny in Ørsta, and the tide is high."
    assert [result.text for result in server.player.results] == ["sunny", "low", '{"high": 2.5}']
    assert problems(server) == []


@BOTH_WAYS
@EVERY_CLIENT
def test_a_client_tries_again_after_a_failure(
    started: Start, connect: Connect, client: type[Client], stream: bool
) -> None:
    server = started({"fail": 429}, {"fail": 500}, {"call": "forecast"})
    asked = connect(client, server)
    if client is CLIENTS["gemini"]:  # its SDK does not try again by itself
        from google import genai

        for status in (429, 500):
            with pytest.raises(genai.errors.APIError, match=str(status)):
                asked.ask(stream=stream)
    assert len(asked.ask(stream=stream).calls) == 1


def test_a_service_that_has_too_much_to_do(started: Start, connect: Connect) -> None:
    import anthropic
    import openai
    from google import genai

    told: dict[str, tuple[type[Exception], int]] = {
        "anthropic": (anthropic.APIStatusError, 529),
        "chat": (openai.InternalServerError, 503),
        "responses": (openai.InternalServerError, 503),
        "gemini": (genai.errors.ServerError, 503),
    }
    assert told.keys() == CLIENTS.keys()
    for name, (error, status) in told.items():
        server = started(*[{"fail": 529, "message": "Too much to do."}] * 3)
        with pytest.raises(error, match=rf"(?s){status}.*Too much to do\."):
            connect(CLIENTS[name], server).ask(stream=False)


@EVERY_CLIENT
def test_a_stream_that_breaks_off_is_no_answer(
    started: Start, connect: Connect, client: type[Client]
) -> None:
    server = started({"fail": "cut"}, {"say": "Done."})
    asked = connect(client, server)
    with pytest.raises(Exception, match=r"(?i)incomplete|closed|connection|peer"):
        asked.ask(stream=True)
    assert asked.ask(stream=True).text == "Done."
    assert problems(server) == []


@EVERY_CLIENT
def test_what_clients_ask_besides_takes_no_turn(
    started: Start, connect: Connect, client: type[Client]
) -> None:
    server = started({"say": "Done."})
    asked = connect(client, server)
    known = ("claude-opus-4-8", "gpt-5", "models/gemini-2.5-pro")
    assert [name for name in asked.models() if name in known]
    assert asked.count_tokens() in (100, None)
    assert server.player.turns[0].has_run is False
