"""A client for the official conformance suite, built with the Python SDK 2.x.

    python conformance_client.py [BRIDGE...] URL

The suite starts it once per scenario. With the command of a bridge it speaks stdio with the command and the
URL. Environment variables name the scenario and the revision to speak. In
every scenario it lists the tools and calls each with arguments that fit its schema. If authorization is
needed, it uses the authorization code grant, or the credentials of the scenario.
"""

# It runs with another version of the SDK than it is type-checked with.
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
# pyright: reportArgumentType=false, reportPrivateImportUsage=false

import asyncio
import json
import os
import sys
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp import Client, types
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata

DEADLINE_S = 25
CALLBACK = "http://localhost:3000/callback"
OWN_DOCUMENT = "https://conformance-test.local/client-metadata.json"


class Storage:
    """Stores the tokens and the client registration of one run."""

    def __init__(self, client: OAuthClientInformationFull | None = None) -> None:
        self._tokens: Any = None
        self._client = client

    async def get_tokens(self) -> Any:
        return self._tokens

    async def set_tokens(self, tokens: Any) -> None:
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._client = client_info


class User:
    """A user who agrees to everything immediately."""

    def __init__(self) -> None:
        self._given: dict[str, list[str]] = {}

    async def redirect(self, url: str) -> None:
        async with httpx2.AsyncClient() as browser:
            answer = await browser.get(url)
        self._given = parse_qs(urlsplit(answer.headers["location"]).query)

    async def callback(self) -> AuthorizationCodeResult:
        given = {name: values[0] for name, values in self._given.items()}
        return AuthorizationCodeResult(code=given["code"], state=given.get("state"), iss=given.get("iss"))


def authorization(url: str, scenario: str, context: dict[str, Any]) -> httpx2.Auth:
    """Return the authorization of the client for this scenario."""
    identity = context.get("client_id", "")
    match scenario:
        case "auth/client-credentials-basic":
            return ClientCredentialsOAuthProvider(url, Storage(), identity, context["client_secret"])
        case "auth/client-credentials-jwt":
            signer = SignedJWTParameters(
                issuer=identity,
                subject=identity,
                signing_key=context["private_key_pem"],
                signing_algorithm=context.get("signing_algorithm", "ES256"),
            )
            return PrivateKeyJWTOAuthProvider(url, Storage(), identity, signer.create_assertion_provider())
    registered = None
    if identity:
        secret = context.get("client_secret")
        registered = OAuthClientInformationFull(
            client_id=identity,
            client_secret=secret,
            redirect_uris=[CALLBACK],
            token_endpoint_auth_method="client_secret_basic" if secret else "none",
            issuer=context.get("issuer"),
        )
    user = User()
    about = OAuthClientMetadata(
        client_name="conformance",
        redirect_uris=[CALLBACK],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
    )
    storage = Storage(registered)
    return OAuthClientProvider(url, about, storage, user.redirect, user.callback, OWN_DOCUMENT)


async def agree(context: Any, params: Any) -> types.ElicitResult:
    """Accept a form with its default values."""
    fields = getattr(params, "requested_schema", {}).get("properties", {})
    content = {name: field["default"] for name, field in fields.items() if "default" in field}
    return types.ElicitResult(action="accept", content=content)


def fitting(schema: dict[str, Any]) -> dict[str, Any]:
    """Return arguments that are valid for the schema of a tool."""
    samples = {"integer": 5, "number": 5, "boolean": True, "array": [], "object": {}}
    properties = schema.get("properties", {})
    return {name: samples.get(properties[name].get("type"), "words") for name in schema.get("required", [])}


async def main(command: list[str]) -> None:
    url = command[-1]
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    revision = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "")
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    auth = authorization(url, scenario, context) if scenario.startswith("auth/") else None
    mode = "auto" if revision >= "2026" else "legacy"
    async with (
        asyncio.timeout(DEADLINE_S),
        httpx2.AsyncClient(auth=auth, timeout=DEADLINE_S) as http,
        Client(
            stdio_client(StdioServerParameters(command=command[0], args=command[1:]))
            if command[:-1]
            else streamable_http_client(url, http_client=http),
            mode=mode,
            elicitation_callback=agree,
        ) as client,
    ):
        tools = (await client.list_tools()).tools
        wanted = [(tool.name, fitting(tool.input_schema)) for tool in tools]
        for call in context.get("toolCalls", ()):
            wanted.append((call["name"], call["arguments"]))
        for name, arguments in wanted:
            await client.call_tool(name, arguments)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
