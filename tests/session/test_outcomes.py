"""How an answer ends its call."""

import pytest

from mcpproxy.judge.session.outcomes import Outcome, error_code, outcome_of
from mcpproxy.protocol.jsonrpc import ErrorResponse, Response, parse


@pytest.mark.parametrize(
    ("answer", "outcome", "code"),
    [
        (b'"result":{}', Outcome.OK, None),
        (b'"result":7', Outcome.OK, None),
        (b'"result":{"isError":false}', Outcome.OK, None),
        (b'"result":{"isError":"true"}', Outcome.OK, None),
        (b'"result":{"isError":true}', Outcome.TOOL_ERROR, None),
        (b'"result":{"resultType":"input_required"}', Outcome.INPUT_REQUIRED, None),
        (b'"result":{"resultType":["input_required"]}', Outcome.OK, None),
        (b'"error":{"code":-32602,"message":"no"}', Outcome.RPC_ERROR, -32602),
        (b'"error":{"code":true}', Outcome.RPC_ERROR, None),
        (b'"error":"no"', Outcome.RPC_ERROR, None),
        (b'"result":{},"error":{"code":-1}', Outcome.RPC_ERROR, -1),
    ],
)
def test_an_answer_ends_its_call(answer: bytes, outcome: Outcome, code: int | None) -> None:
    message = parse(b'{"jsonrpc":"2.0","id":1,%b}' % answer)
    assert isinstance(message, Response | ErrorResponse)
    assert (outcome_of(message), error_code(message)) == (outcome, code)
