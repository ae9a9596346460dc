"""A scenario: one row of the table, with the scripts by which its server differs from an ordinary one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from mcpproxy.client_tests.peer import Script
from mcpproxy.protocol.jsonrpc import JSONObject

Transport = Literal["stdio", "http"]
Reaction = Literal["goes on", "may give up", "may wait"]
"""What a client has to do: go on, as with an ordinary server; or end in order, which it may do with an error;
or not even that, because what it waits for never comes."""

Category = Literal["lifecycle", "jsonrpc", "tools", "sequence", "transport", "robustness"]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A row of the table of scenarios.

    - ``what`` says in one line what the server does.
    - ``needs`` is the request of the client without which the scenario says nothing.
    - ``scripts`` answer requests, by method. Other requests are answered as by an ordinary server.
    - ``capabilities`` are those of the server.
    - ``declared`` are capabilities of the client, one of which it has to declare.
    - ``delay_s`` is how long the server waits before it reads, and ``flood`` how many lines it writes to
      stderr then.
    - ``tool`` is the one that a scripted model calls, of several the last that is listed, empty if there
      is none; and ``calls`` how often at once.
    """

    name: str
    category: Category
    what: str
    needs: str = "initialize"
    scripts: Mapping[str, Script] = field(default_factory=dict[str, Script])
    reaction: Reaction = "goes on"
    capabilities: JSONObject = field(default_factory=lambda: {"tools": {}})
    declared: tuple[str, ...] = ()
    transports: tuple[Transport, ...] = ("stdio", "http")
    delay_s: float = 0
    flood: int = 0
    tool: str = "echo"
    calls: int = 1
