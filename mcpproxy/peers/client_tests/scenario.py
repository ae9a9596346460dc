"""A scenario: one row of the table, with the scripts by which its server differs from an ordinary one."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from mcpproxy.peers.client_tests.http_peer import HttpScript
from mcpproxy.peers.client_tests.peer import Script
from mcpproxy.protocol.jsonrpc import JSONObject
from mcpproxy.protocol.revisions import Era

Transport = Literal["stdio", "http"]
Reaction = Literal["goes on", "may give up", "may wait"]
"""What a client has to do: go on, as with an ordinary server; or end in order, which it may do with an error;
or not even that, because what it waits for never comes."""

CANCELLED: Final = "notifications/cancelled"

Category = Literal["lifecycle", "jsonrpc", "tools", "sequence", "transport", "robustness"]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A row of the table of scenarios.

    - ``what`` says in one line what the server does.
    - ``needs`` is the request of the client without which the scenario says nothing.
    - ``after`` names another scenario, in which the client must have sent what this one needs, too, if
      both are played.
    - ``scripts`` answer requests, by method. Other requests are answered as by an ordinary server.
    - ``capabilities`` are those of the server, and ``eras`` which requests it takes: of sessions, stateless
      ones, or both.
    - ``declared`` are capabilities of the client, one of which it has to declare.
    - ``delay_s`` is how long the server waits before it reads, and ``flood`` how many lines it writes to
      stderr then.
    - ``fault`` is a rule, as of ``--fault``, that is put before the server.
    - ``http`` answers requests over HTTP, with which the server speaks HTTP itself. Without it, a bridge
      stands before a server on stdio.
    - ``stays_s`` is how long the server, once it has got what the scenario needs, waits for the next message
      before it ends, on stdio; 0 if it does not.
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
    fault: str = ""
    stays_s: float = 0
    tool: str = "echo"
    calls: int = 1
    after: str = ""
    eras: tuple[Era, ...] = ("stateful",)
    http: HttpScript | None = None

    @property
    def is_silent(self) -> bool:
        """Whether it is waited for that the client gives up by itself, because nothing comes any more."""
        return self.reaction == "may wait" and not self.stays_s

    @property
    def awaited(self) -> str:
        """The message after which a client may wait in vain."""
        return "tools/call" if self.needs == CANCELLED else self.needs

    def on(self, transport: Transport) -> "Scenario":
        """Return the scenario as it is on one transport: a client that waits for a server need not wait for
        one that has ended."""
        if transport == "stdio" and self.stays_s and self.reaction == "may wait":
            return replace(self, reaction="may give up")
        return self
