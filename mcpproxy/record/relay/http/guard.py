"""Access control: refuse requests from pages of foreign sites, and connections to hosts that are not allowed.

A browser lets any page send requests to 127.0.0.1. If the page's own host name is made to resolve to that
address (DNS rebinding), the page can even read the answers. But the Host field still contains the page's host
name, and Origin names the site of the page. So a proxy on loopback accepts only requests whose Host is a
loopback name, and only from pages with a loopback name; names of the proxy and origins that the user has
given are accepted too. In forward mode, where each request names its server, the check of Origin prevents web
pages from reaching other networks through the proxy.
"""

from __future__ import annotations

from mcpproxy.base.authority import is_loopback, split_authority
from mcpproxy.record.relay.http.request_head import ParsedHead, Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class Guard:
    """Refuses requests that a page of a foreign site may have sent, by their Host and Origin.

    Args:
        is_on: false if the proxy listens on more than loopback, because its names are not all known then.
        own_names: host names of this proxy besides the loopback names.
        origins: origins that are allowed (``https://app.example``). The host of each is accepted like one of
            ``own_names``. ``*`` turns the whole check off, also that of Host.
        has_option: whether the user can allow origins with ``--allow-origin``.
    """

    def __init__(
        self, is_on: bool, own_names: Iterable[str], origins: Iterable[str], *, has_option: bool = True
    ) -> None:
        self._next_step = "; --allow-origin would allow it" if has_option else ""
        self._origins = {origin.lower().rstrip("/") for origin in origins}
        self._is_on = is_on and "*" not in self._origins
        self._hosts = {name.lower() for name in own_names}
        for origin in self._origins:
            try:
                self._hosts.add(split_authority(origin.partition("://")[2].encode("ascii", "replace"))[0])
            except ValueError:  # the origin "null" has no host
                pass

    def check(self, head: ParsedHead, target_host: str = "") -> None:
        """Accept or refuse a request. ``target_host`` is the server that a request in forward mode names;
        then ``Host`` is not checked, and pages of that server are accepted. A request without ``Host``
        (HTTP/1.0 only) is checked by its Origin alone.

        Raises:
            Refusal: the Host or the Origin of the request is foreign.
        """
        if not self._is_on:
            return
        if head.host is not None and not target_host:  # in forward mode, Host names the target
            host = split_authority(head.host)[0]
            if not self._is_ours(host):
                why = f"Host {host} is not a name of this machine (DNS rebinding?)"
                raise Refusal(403, why + self._next_step)
        origin = (head.value(b"origin") or b"").decode("latin-1").lower()
        if origin and origin not in self._origins:
            try:
                host = split_authority(origin.partition("://")[2].encode("latin-1"))[0]
            except ValueError:
                host = ""
            is_of_target = bool(host) and host == target_host  # a page may talk to its own server
            if not self._is_ours(host) and not is_of_target:
                raise Refusal(403, f"Origin {origin} is a foreign site{self._next_step}")

    def _is_ours(self, host: str) -> bool:
        return is_loopback(host) or host in self._hosts


class Targets:
    """The servers that forward mode may connect to: this machine, and the hosts that are allowed.

    Args:
        allowed: ``host`` (any port) or ``host:port``; ``*`` allows all hosts.
    """

    def __init__(self, allowed: Iterable[str]) -> None:
        self._allowed = {name.lower() for name in allowed}

    @property
    def is_open(self) -> bool:
        """Whether all hosts are allowed."""
        return "*" in self._allowed

    def check(self, host: str, port: int) -> None:
        """Accept or refuse a target.

        Raises:
            Refusal: the target is neither this machine nor allowed.
        """
        literal = f"[{host}]" if ":" in host else host
        names = {host, literal, f"{literal}:{port}", "*"}
        if not is_loopback(host) and self._allowed.isdisjoint(names):
            raise Refusal(403, f"{literal}:{port} is not this machine; --allow-host {literal} would allow it")
