"""Issuers: how much is remembered of them."""

from typing import Final

from mcpproxy.judge.session.issuers import Issuers

ANN: Final = "https://ann.example"
BEN: Final = "https://ben.example"


def known() -> Issuers:
    """Two authorization servers, of which one gave a token."""
    issuers = Issuers()
    for name in (ANN, BEN):
        issuers.add_server(frozenset((name,)), frozenset((f"{name}/token",)))
    issuers.add_credential(issuers.tokens, "token", f"{ANN}/token", 1)
    return issuers


def test_a_token_is_one_of_another_server() -> None:
    issuers = known()
    assert issuers.others_gave(issuers.tokens["token"], frozenset((BEN,)))
    assert not issuers.others_gave(issuers.tokens["token"], frozenset((ANN,)))


def test_of_a_server_whose_metadata_change_without_end_nothing_is_concluded() -> None:
    issuers = known()
    for number in range(1_000):
        issuers.add_server(frozenset((BEN,)), frozenset((f"{BEN}/{number}",)))
        issuers.add_server(frozenset((f"{BEN}/{number}",)), frozenset((f"{BEN}/token",)))
        issuers.add_resource("https://files.example", frozenset((f"{BEN}/{number}",)))
        issuers.add_credential(issuers.tokens, "other", f"{ANN}/{number}", number)
    kept = (issuers.endpoints[BEN], issuers.named[f"{BEN}/token"], issuers.tokens["other"].places)
    assert max(map(len, (*kept, issuers.wanted_at("https://files.example")))) < 100
    assert not issuers.others_gave(issuers.tokens["token"], frozenset((BEN,)))
