"""A scenario: one test of a client, with the scripts by which its server differs from an ordinary one."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from mcpproxy.peers.client_tests.http_peer import HttpScript
from mcpproxy.peers.client_tests.peer import Script
from mcpproxy.protocol.jsonrpc import JSONObject
from mcpproxy.protocol.revisions import Era

Transport = Literal["stdio", "http"]
Reaction = Literal["goes on", "may give up", "may wait"]
"""What a client has to do.

- ``goes on``: it must continue as with an ordinary server.
- ``may give up``: it may also exit, even with an error, but not crash or hang.
- ``may wait``: it may even wait without end, because the answer never comes.
"""

CANCELLED: Final = "notifications/cancelled"

Category = Literal["lifecycle", "jsonrpc", "tools", "sequence", "transport", "robustness"]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A row of the table of scenarios.

    - ``what`` says in one line what the server does. ``category`` is that of its check in the report, and
      ``transports`` are those over which it is played.
    - ``needs`` is a method that the client must use; otherwise the scenario cannot pass.
    - ``after`` names another scenario. If that is played, too, and the client did not use the method
      ``needs`` in it, this one is skipped.
    - ``scripts`` answer requests, by method. Other requests are answered as by an ordinary server.
    - ``reaction`` is what the client has to do.
    - ``capabilities`` are those of the server. ``eras`` are the kinds of requests that it accepts: those of
      sessions, stateless ones, or both.
    - ``declared`` are capabilities of the client, of which it must declare at least one.
    - ``flood`` is how many lines the server first writes to stderr, and ``delay_s`` how long it then waits
      before it reads.
    - ``fault`` is a rule, in the form of ``--fault``, that mcpproxy applies to the messages of the server.
    - ``http`` is the script of a server that speaks HTTP itself. Without it, a bridge makes a server on stdio
      reachable over HTTP.
    - ``stays_s`` is for a server on stdio: how long it waits for another message, once the client has used
      the method ``needs``, before it exits. With 0 it does not exit. Over HTTP, a value other than 0 only
      says that the run need not wait until the client gives up.
    - ``tool`` is the tool that a scripted model calls, empty if there is none; of several, it is the last in
      the list. ``calls`` is how many calls are sent at once.
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
        """Whether the server stops answering, so that the run waits for the client to give up by itself."""
        return self.reaction == "may wait" and not self.stays_s

    @property
    def awaited(self) -> str:
        """The method of the message after which a client may wait in vain."""
        return "tools/call" if self.needs == CANCELLED else self.needs

    def on(self, transport: Transport) -> "Scenario":
        """Return the scenario for one transport.

        On stdio, a server with ``stays_s`` exits, so a client may then not wait for it without end.
        """
        if transport == "stdio" and self.stays_s and self.reaction == "may wait":
            return replace(self, reaction="may give up")
        return self
