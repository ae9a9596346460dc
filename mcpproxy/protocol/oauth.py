"""The paths of OAuth metadata, and the parameters of a ``WWW-Authenticate`` challenge."""

from collections.abc import Iterable
from typing import Final

from mcpproxy.base.patterns import pattern

RESOURCE_METADATA: Final = "/.well-known/oauth-protected-resource"
"""RFC 9728, section 3."""

SERVER_METADATA: Final = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")
"""RFC 8414, section 3, and OpenID Connect Discovery 1.0, section 4."""

_PARAMETER: Final = pattern(r'(?<![\w-])([\w-]++)\s*+=\s*+(?:"([^"]*)"|([^\s,"]+))')


def challenge_parameters(values: Iterable[str]) -> dict[str, str]:
    """Return the parameters of all challenges in values of ``WWW-Authenticate``, with names in lower case.

    If a name occurs several times, the last value counts.

    Source: RFC 9110, section 11.6.1.
    """
    return {
        match[1].lower(): match[2] if match[2] is not None else match[3]
        for value in values
        for match in _PARAMETER.finditer(value)
    }
