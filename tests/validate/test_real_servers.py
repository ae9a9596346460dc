"""The whole of a validation against servers that others wrote, over HTTP, one of each transport and era.

What it says of them has to be deserved: each entry of ``DESERVED`` was looked up in the specification.
"""

import asyncio
from pathlib import Path
from typing import Final

import pytest

from mcpproxy.peers.validate.outcome import Validation
from mcpproxy.peers.validate.probe_context import ValidateOptions
from mcpproxy.peers.validate.probes import PROBES, chosen
from mcpproxy.peers.validate.recordings import Recordings, Target
from mcpproxy.peers.validate.runner import validate
from tests.peers.fixtures import Peers
from tests.peers.processes import server
from tests.validate.trial import check, rules

DESERVED: Final = {
    ("python 2", "2026-07-28"): {
        "header-version-mismatch",  # It goes by the header alone, and says that a session is missing.
        "unknown-tool",  # It answers with a result.
        "unknown-prompt",  # -32603
        "missing-prompt-argument",  # -32603
        "unknown-completion",  # It completes what it does not have.
    },
    ("everything sse", "2025-11-25"): {
        "foreign-origin",  # It has no such check.
        "RES-004 unusual-not-found-code",  # -32602
    },
}

ONLY: Final = {"2025-11-25": ("transport", "security", "lifecycle", "sequence"), "2026-07-28": ()}
"""HTTP+SSE is another way to the same server, so the rest of it is left to the tests of that."""


@pytest.mark.parametrize(("name", "revision"), DESERVED, ids=lambda value: value)
def test_a_foreign_server_gets_what_it_deserves(
    peers: Peers, name: str, revision: str, tmp_path: Path
) -> None:
    kind = name.removesuffix(" sse")
    is_sse = name.endswith(" sse")
    command = peers.http_server(kind, "sse") if is_sse else peers.http_server(kind)
    with server(command, {"PORT": "0"}) as origin:
        result = validated(f"{origin}/{'sse' if is_sse else 'mcp'}", revision, tmp_path)
    found = {one.name for one in result.checks if one.status in ("failed", "warning")}
    assert found == DESERVED[name, revision], [
        one.conclusion for one in result.checks if one.status in ("failed", "warning")
    ]
    applying = {probe.name for probe in chosen(ONLY[revision]) if "http" in probe.transports}
    assert {one.name for one in result.checks} >= {
        probe.name for probe in PROBES if probe.name in applying and revision in probe.revisions
    }
    if revision == "2026-07-28":
        for probe in (
            "input-required",
            "input-undeclared",
            "input-left-out",
            "two-subscriptions",
            "both-eras",
        ):
            assert check(result, probe).status == "passed"
    else:
        assert check(result, "sse-endpoint").status == "passed"


def validated(url: str, revision: str, folder: Path) -> Validation:
    """All checks of one revision that are tried here."""
    return asyncio.run(
        validate(
            Target(url=url),
            chosen(ONLY[revision]),
            Recordings(rules(), str(folder / "trace.jsonl"), "real"),
            revision=revision,
            options=ValidateOptions(calls=(("ask_user", {}),) if revision == "2026-07-28" else ()),
        )
    )
