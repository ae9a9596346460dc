"""Writes the observed behaviour of a client as a table of facts about a host (``rules/hosts/README.md``).

Behaviour for which there is a kind of fact becomes a row; the rest is written above the rows, as comments.
"""

import datetime
import json
from collections.abc import Iterator, Mapping
from typing import Final

from mcpproxy.base.visible import visible
from mcpproxy.judge.ruleset import host_facts
from mcpproxy.peers.client_tests.behaviour import PAGES_READ, behaviour
from mcpproxy.peers.client_tests.seen import NAMELESS
from mcpproxy.peers.client_tests.verdict import Played, lacking
from mcpproxy.protocol.jsonrpc import JSONObject
from mcpproxy.protocol.rules import RuleError

_LISTS: Final = {"two-pages": "tools/list", "many-pages": "tools/list"}
"""The scenarios that show how many pages of a list are read -> the method of the list."""


def fact_table(client: JSONObject, played: Mapping[str, Played], today: datetime.date) -> str:
    """Return the table of a client that gave ``client`` as its ``clientInfo``, as TOML.

    ``played`` has the scenarios by name, and ``today`` becomes the date of each fact. The table is empty if
    no observed behaviour becomes a row, because a table has at least one.
    """
    rows = list(_rows(played))
    if not rows:
        return ""
    name, version = _text(client, "name"), _text(client, "version")
    lines = [
        f"# What mcpproxy validate client saw of {_comment(f'{name or NAMELESS} {version}')} on {today}."
    ]
    lines += [
        f"# Facts about this client stand in rules/hosts/{host.id}.toml already."
        for host in host_facts.load(today)
        if host.is_client(name)
    ]
    lines += [f"# {fact}: {_comment(clause)}" for fact, clause in behaviour(played)]
    lines += [f"name = {_quoted(name or NAMELESS)}"]
    lines += [f"clients = {_quoted([name] if name else [])}"]
    for scenario, row in rows:
        seen = {
            **row,
            "versions": _versions(version, today),
            "seen": version or "a version that it does not give",
            "grade": "measured",
            "source": f"mcpproxy validate client, scenario {scenario}",
        }
        lines += ["", "[[fact]]", *(f"{key} = {_quoted(value)}" for key, value in seen.items())]
        lines.append(f"date = {today}")
    return "\n".join(lines) + "\n"


def _rows(played: Mapping[str, Played]) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the names of the scenarios that show a fact, each with members of its row."""
    done = {name: play for name, play in played.items() if not lacking(play)}
    for name, pages in PAGES_READ:
        method = _LISTS.get(name)
        read = min(done[name].seen.pages, pages) if name in done else pages
        if method is not None and read < pages:
            says = "reads the first page only" if read == 1 else f"reads {read} pages only"
            yield name, {"kind": "pages", "lists": [method], "pages": read, "says": says, "effect": "lost"}
            break  # scenarios with more pages show the same
    silent = done.get("never-answers")
    if silent is not None and silent.seen.gave_up_ns:
        limit = round((silent.seen.gave_up_ns - silent.seen.asked_ns) / 1e9)
        if limit > 0:
            says = f"gives up a call after {limit} seconds"
            methods = ["tools/call"]
            yield "never-answers", {
                "kind": "answer-time", "limit": limit, "methods": methods, "says": says, "effect": "lost",
            }  # fmt: skip


def _versions(version: str, today: datetime.date) -> str:
    """Return the range with only this version; ``unknown`` if a range cannot contain it."""
    row = {
        "kind": "tool-hidden",
        "says": "-",
        "effect": "lost",
        "grade": "measured",
        "source": "-",
        "date": today,
        "seen": version,
        "versions": f">={version},<={version}",
    }
    try:
        host_facts.fact("", row, today)
    except RuleError:
        return host_facts.UNKNOWN
    return f">={version},<={version}"


def _text(client: JSONObject, member: str) -> str:
    value = client.get(member)
    return visible(value)[:200] if isinstance(value, str) else ""


def _comment(text: str) -> str:
    return " ".join(visible(text).split())


def _quoted(value: object) -> str:
    """Return a value as TOML. Texts without control characters, and lists of them, are written as in JSON."""
    return json.dumps(value, ensure_ascii=False)
