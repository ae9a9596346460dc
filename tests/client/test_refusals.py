"""What a server says with an HTTP status and no message of MCP, as one clause."""

import re

import pytest

from mcpproxy.peers.client.refusals import refusal, status_words

NGINX = b"<html>\r\n<head><title>400 No required SSL certificate was sent</title></head>\r\n</html>\r\n"
NGINX_WRONG = b"<html>\r\n<head><title>400 The SSL certificate error</title></head>\r\n</html>\r\n"


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (400, b"", "400"),
        (400, NGINX, "400: No required SSL certificate was sent"),
        (404, b"<HTML><TITLE>404 Not Found</TITLE></HTML>", "404"),
        (404, b"Not Found\n", "404"),
        (503, b"<p>no title", "503"),
        (401, b'{"code":401,"msg":"token expired"}', "401: token expired"),
        (502, b"<title>A &amp; B</title>", "502: A & B"),
        (502, b"upstream is down\nsecond line", "502: upstream is down"),
        (401, b'{"error":"invalid_token","error_description":"it has expired"}', "401: it has expired"),
        (403, b'{"error":{"code":3}}', "403"),
        (400, b'{"title":"Bad Request","detail":"no session"}', "400: no session"),
        (
            400,
            b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: no session"}}',
            "400: Bad Request: no session",
        ),
        (500, b"\x1b[31mred\xff", "500: \\u001b[31mred\ufffd"),
        (500, b"x" * 300, f"500: {'x' * 200}"),
        (500, b"[1]", "500: [1]"),
    ],
)
def test_what_a_refusal_says(status: int, body: bytes, words: str) -> None:
    assert status_words(status, body) == words


OWN = (("Authorization", "Bearer letmein"), ("X-Key", "a key"), ("X-Trace", "1"))


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("unknown credentials: Bearer letmein", "unknown credentials: ***"),
        ("1 unknown token letmein, or a key", "1 unknown token ***, or ***"),
        ("unknown credentials: Bearer of-another-1234", "unknown credentials: Bearer ***"),
        (f"{'x' * 196} letmein", f"{'x' * 196} ***"),
    ],
)
def test_what_a_refusal_repeats_of_credentials_is_hidden(said: str, words: str) -> None:
    assert status_words(403, said.encode(), OWN) == f"403: {words}"


@pytest.mark.parametrize(
    ("status", "location", "body", "words"),
    [
        (307, "/mcp/", b"", "307 to https://a.example/mcp/; try that URL"),
        (301, "http://b.example/mcp", b"Moved", "301 to http://b.example/mcp; try that URL"),
        (308, "?key=sk-12345678901234567890", b"", "308 to https://a.example/mcp?key=***; try that URL"),
        (
            302,
            "https://login.example/",
            b"",
            "302 to https://login.example/; try that URL, or give credentials if it wants a login",
        ),
        (301, "", b"", "301 without a Location"),
        (
            421,
            "",
            b"Invalid Host header",
            "421: Invalid Host header; the server has to allow the host a.example",
        ),
        (
            403,
            "",
            b"Invalid Host: a.example",
            "403: Invalid Host: a.example; the server has to allow the host a.example",
        ),
        (403, "", b"no", "403: no"),
        (302, "http://[", b"", "302 with a Location that is no URL"),
        (304, "/mcp/", b"", "304"),
        (
            400,
            "",
            NGINX,
            "400: No required SSL certificate was sent; give one with --client-cert and --client-key",
        ),
        (
            400,
            "",
            NGINX_WRONG,
            "400: The SSL certificate error; perhaps it does not accept the certificate of --client-cert",
        ),
        (400, "", b"x" * 5000 + NGINX, f"400: {'x' * 200}"),
        (400, "", b"The SSL certificate error", "400: The SSL certificate error"),
        (503, "", NGINX, "503: 400 No required SSL certificate was sent"),
    ],
)
def test_a_refusal_says_what_to_do(status: int, location: str, body: bytes, words: str) -> None:
    said = str(refusal("https://a.example/mcp", status, location, body))
    assert re.sub(r"key=[^;]*", "key=***", said) == words
    assert "12345678901234567890" not in said


@pytest.mark.parametrize(
    ("url", "other"),
    [
        ("http://127.0.0.1:8000/mcp", "http://localhost:8000/mcp"),
        ("http://localhost/mcp?key=s3cret", "http://127.0.0.1/mcp"),
        ("https://[::1]:1/", "https://localhost:1/"),
    ],
)
def test_a_name_of_this_machine_that_is_not_served_has_another(url: str, other: str) -> None:
    advice = f"perhaps it serves another name of this machine: try {other}"
    assert refusal(url, 421, "", b"").advice == advice


def test_a_page_full_of_titles_is_read_in_linear_time() -> None:
    # Without that it takes minutes: each of them would be searched to the end of what is read.
    assert status_words(500, b"<title " * (1 << 20)) == "500"
