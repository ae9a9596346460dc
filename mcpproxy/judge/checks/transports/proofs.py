"""Proofs of possession (DPoP): tokens that are bound to a key of the client.

By default a recording masks proofs, so what one says about its method, address and nonce is not compared.

Source: https://www.rfc-editor.org/rfc/rfc9449
"""

from typing import Final

from mcpproxy.judge.checks.engine.context import Violation, Violations
from mcpproxy.judge.checks.engine.http_facts import WITH_PROOF, WITH_TOKEN
from mcpproxy.judge.checks.engine.rows import MCP, OTHER, HttpCheck, RuleFamily
from mcpproxy.judge.checks.transports.authorization import AUTHORIZED
from mcpproxy.judge.session.exchanges import HttpExchange, HttpHistory
from mcpproxy.judge.session.frame import Frame
from mcpproxy.judge.session.masked_values import credential
from mcpproxy.protocol.jsonrpc import Batch
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.oauth import challenge_parameters

NONCE_WANTED: Final = "use_dpop_nonce"
"""The error with which a server asks for a nonce in proofs (RFC 9449, sections 8 and 9)."""


def token_without_proof(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report a token of the scheme DPoP, which is bound to a key, without a proof of the key (AUTH-008)."""
    scheme, _ = credential(exchange.fields.get("authorization") or "")
    if scheme == "dpop" and "dpop" not in exchange.fields and exchange.method != "OPTIONS":
        yield Violation("AUTH-008", "R-329", "client sent a DPoP token without a proof in the header DPoP")


def used_proof(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report a proof that the client has sent before, with a request that was answered (AUTH-009).

    A request that was not answered may have been sent again by the client's HTTP library.
    """
    earlier_seq = history.proofs.get(exchange.fields.get("dpop") or "")
    if earlier_seq is not None:
        problem = "client sent a DPoP proof that it had sent with another request"
        yield Violation("AUTH-009", "R-330", problem, related=(earlier_seq,), candidates=AUTHORIZED)


def nonce_not_given(exchange: HttpExchange, history: HttpHistory, frame: Frame | None) -> Violations:
    """Report an MCP server that wants a nonce in proofs and gives none (AUTH-010)."""
    challenges = exchange.response_fields.all("www-authenticate")
    if challenges and challenge_parameters(challenges).get("error") == NONCE_WANTED:
        yield from _without_nonce(exchange, history)


def nonce_not_given_in_body(exchange: HttpExchange, history: HttpHistory, frame: Frame) -> Violations:
    """Report an authorization server that wants a nonce in proofs and gives none (AUTH-010)."""
    message = frame.message
    if (
        exchange.status == 400
        and not isinstance(message, Batch)
        and member(message.value, "error") == NONCE_WANTED
    ):
        yield from _without_nonce(exchange, history)


def _without_nonce(exchange: HttpExchange, history: HttpHistory) -> Violations:
    # A server that gave a nonce before may refuse another one without giving a new one.
    if "dpop-nonce" not in exchange.response_fields and not history.gave_nonce:
        problem = f"server refused with {NONCE_WANTED}, without a nonce in the header DPoP-Nonce"
        related = (exchange.request.seq,)
        yield Violation("AUTH-010", "R-331", problem, related=related, candidates=AUTHORIZED)


FAMILY: Final = RuleFamily(
    http=(
        HttpCheck(("AUTH-008",), token_without_proof, ("request",), MCP, given=WITH_TOKEN),
        HttpCheck(("AUTH-009",), used_proof, ("request",), (*MCP, *OTHER), given=WITH_PROOF),
        HttpCheck(("AUTH-010",), nonce_not_given, ("refusal",), MCP),
        HttpCheck(("AUTH-010",), nonce_not_given_in_body, ("body",), OTHER, ("POST",)),
    )
)
