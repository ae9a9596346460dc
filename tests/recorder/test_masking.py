"""Credentials never reach the trace: what is masked, and that nothing else changes."""

import json
import re

import pytest

from mcpproxy.base.secret_names import SECRET_WORDS, UNSEPARATED
from mcpproxy.judge.session.masked_values import as_mask, credential
from mcpproxy.record.recorder.masking import SECRETS, STEMS, Masker

MASKER = Masker(b"salt")
MASK = re.compile(r"masked\(len=(\d+),visible=(?:yes|no),hash=[0-9a-f]{12}\)")


def shown(text: str) -> str:
    """``text`` with each mask as ``*`` and the length of what it stands for."""
    return MASK.sub(r"*\1", text)


FIELDS = {
    "Authorization": [
        ("Bearer abc", "Bearer *3"),
        ("abc", "*3"),
        ("Basic  x", "Basic *2"),
        ("DPoP abc", "DPoP *3"),
        ("Bearer ", "Bearer "),
    ],
    "PROXY-AUTHORIZATION": [("Basic abc", "Basic *3")],
    "DPoP": [("eyJ0.e30.c2ln", "*13")],
    "DPoP-Nonce": [("n-1", "n-1")],
    "Cookie": [("a=1; b=2", "*8")],
    "Set-Cookie": [("sid=1; HttpOnly", "*15")],
    "mcp-session-id": [("s-1", "*3"), ("", "")],
    "X-Api-Key": [("k", "*1")],
    "api_key": [("k", "*1")],
    "X-Auth-Token": [("k", "*1")],
    "My-Secret": [("k", "*1")],
    "X-RapidAPI-Key": [("k", "*1")],
    "Ocp-Apim-Subscription-Key": [("k", "*1")],
    "X-Functions-Key": [("k", "*1")],
    "X-Authorization": [("Bearer abc", "*10")],
    "X-JWT": [("k", "*1")],
    "Session-Id": [("k", "*1")],
    "Signature": [("sig1=:abc=:", "*11")],
    "Mcp-Param-Api-Key": [("k", "*1")],
    "Mcp-Param-Region": [("eu", "eu")],
    "Mcp-Name": [("password", "password")],
    "Idempotency-Key": [("k", "k")],
    "Sec-WebSocket-Key": [("k", "k")],
    "Access-Control-Allow-Credentials": [("true", "true")],
    "Location": [
        ("http://c/cb?code=abc&state=s", "http://c/cb?code=*3&state=s"),
        ("/next", "/next"),
        ("http://c/cb#access_token=abc&x=1", "http://c/cb#access_token=*3&x=1"),
        ("/a?to=http%3A%2F%2Fc%2F%3Fcode%3Dabc", "/a?to=*30"),
        ("/a?to=http%3A%2F%2Fc%2F%3Fx%3Dabc", "/a?to=http%3A%2F%2Fc%2F%3Fx%3Dabc"),
        ("http://me:pw@h/", "http://*5@h/"),
    ],
    "Referer": [("/cb?code=abc", "/cb?code=*3")],
    "WWW-Authenticate": [('Bearer error="invalid_token"', 'Bearer error="invalid_token"')],
    "Mcp-Protocol-Version": [("2025-11-25", "2025-11-25")],
    "Last-Event-ID": [("7", "7")],
    "Mcp-Method": [("tools/call", "tools/call")],
    "Content-Type": [("text/plain; code=1", "text/plain; code=1")],
}


@pytest.mark.parametrize(
    ("name", "value", "expected"), [(name, *pair) for name, pairs in FIELDS.items() for pair in pairs]
)
def test_a_header_field(name: str, value: str, expected: str) -> None:
    (field,) = MASKER.headers(((name, value),))
    assert field[0] == name
    assert shown(field[1]) == expected


TARGETS = {
    "/mcp": "/mcp",
    "/mcp?x=1&y": "/mcp?x=1&y",
    "/mcp?access_token=abc": "/mcp?access_token=*3",
    "/cb?state=1&CODE=abc#x": "/cb?state=1&CODE=*3#x",
    "/cb?%63ode=abc": "/cb?%63ode=*3",
    "/cb?code=": "/cb?code=",
    "/authorize?dpop_jkt=abc&x=1": "/authorize?dpop_jkt=*3&x=1",
    "/message?sessionId=abc-1": "/message?sessionId=*5",
    "http://u:p@h:1/x?token=t": "http://*3@h:1/x?token=*1",
    "/x=1?token=t": "/x=1?token=*1",
    "/x?api-key=a&key=b&sig=c": "/x?api-key=*1&key=*1&sig=*1",
    "/x?jwt=d&pwd=e&authToken=f": "/x?jwt=*1&pwd=*1&authToken=*1",
    "/x?u[password]=a&monkey=b&max_tokens=4": "/x?u[password]=*1&monkey=b&max_tokens=4",
    "/decode?encoded=1&zipcode=2": "/decode?encoded=1&zipcode=2",
}


@pytest.mark.parametrize(("target", "expected"), TARGETS.items())
def test_a_request_target(target: str, expected: str) -> None:
    assert shown(MASKER.url(target)) == expected


PART = (
    b"--B\r\nContent-Disposition: form-data; filename=token; name=a\r\n\r\nfirst\r\n"
    b"--B\r\nContent-Disposition: form-data; filename=token; name=%b\r\n\r\n%b\r\n--B--\r\n"
)

BODIES = {
    "a form": (b"grant=x&code=a%20?b&client_secret=&token=r", b"grant=x&code=*6&client_secret=&token=*1"),
    "JSON as it stands": (b' {"access_token" :\n"abc", "n": 1.0}', b' {"access_token" :\n"*3", "n": 1.0}'),
    "nested JSON": (b'[{"a":{"id_token":"x"}}]', b'[{"a":{"id_token":"*1"}}]'),
    "a value that looks like a name": (b'{"x":"code","y":"z"}', b'{"x":"code","y":"z"}'),
    "a name in a list": (b'["code","abc"]', b'["code","abc"]'),
    "a name that is escaped": (b'{"access\\u005ftoken":"abc"}', b'{"access\\u005ftoken":"*3"}'),
    "a value with an escaped quote": (b'{"code":"a\\"b","c":"d"}', b'{"code":"*4","c":"d"}'),
    "a name in another case": (b'{"Access_Token":"abc"}', b'{"Access_Token":"*3"}'),
    "a number": (b'{"pin":1234,"n":5}', b'{"pin":"*4","n":5}'),
    "numbers of every form": (
        b'{"otp" : -1.5e+3,"password":0\n,"secret":12}',
        b'{"otp" : "*7","password":"*1"\n,"secret":"*2"}',
    ),
    "a number that is cut off": (b'{"pin":12', b'{"pin":"*2"'),
    "numbers within texts": (b'{"pin":"12, 34","note":"pin: 12"}', b'{"pin":"*6","note":"pin: 12"}'),
    "what is neither text nor number": (b'{"password":null,"pin":true}', b'{"password":null,"pin":true}'),
    "the code of an error": (b'{"code":17}', b'{"code":17}'),
    "bytes that are no UTF-8": (b'{"code":"\xff\xfe","x":"\xff"}', b'{"code":"*12","x":"\xff"}'),
    "names in camel case": (
        b'{"accessToken":"a","clientSecret":"b","refreshToken":"c","private_key":"d","session_token":"e"}',
        b'{"accessToken":"*1","clientSecret":"*1","refreshToken":"*1","private_key":"*1","session_token":"*1"}',
    ),
    "in a list of objects": (b'[[{"k":[{"apiKey":"x"}]}]]', b'[[{"k":[{"apiKey":"*1"}]}]]'),
    "a secret that is a list": (
        b'{"accessTokens":["a","bc",{"x":"d"},1],"x":"e"}',
        b'{"accessTokens":["*1","*2",{"x":"*1"},"*1"],"x":"e"}',
    ),
    "a secret that is an object": (
        b'{"a":{"credentials":{"user":"u","more":["v"]},"b":"w"}}',
        b'{"a":{"credentials":{"user":"*1","more":["*1"]},"b":"w"}}',
    ),
    "the schema of a secret": (
        b'{"properties":{"password":{"type":"string"}}}',
        b'{"properties":{"password":{"type":"string"}}}',
    ),
    "metadata about secrets": (
        b'{"token_endpoint":"/t","token_type":"Bearer","token_endpoint_auth_methods_supported":["none"]}',
        b'{"token_endpoint":"/t","token_type":"Bearer","token_endpoint_auth_methods_supported":["none"]}',
    ),
    "a name that is the name of something": (b'{"key":"a","pass":"b"}', b'{"key":"a","pass":"b"}'),
    "JSON behind a byte order mark": (b'\xef\xbb\xbf{"token":"a"}', b'\xef\xbb\xbf{"token":"*1"}'),
    "a form behind a byte order mark": (b"\xef\xbb\xbfpassword=a&b=c", b"\xef\xbb\xbfpassword=*1&b=c"),
    "a JSON-RPC message": (
        b'{"jsonrpc":"2.0","id":1,"result":{"token":"a"}}',
        b'{"jsonrpc":"2.0","id":1,"result":{"token":"a"}}',
    ),
    "a JSON-RPC message in another order": (
        b'{"params":{"token":"a"},"x":{},"method":"m","jsonrpc":"2.0"}',
        b'{"params":{"token":"a"},"x":{},"method":"m","jsonrpc":"2.0"}',
    ),
    "a batch": (
        b'[{"jsonrpc":"2.0","id":1,"result":{"token":"a"}},{"id":2,"jsonrpc":"2.0","error":{"token":"b"}}]',
        b'[{"jsonrpc":"2.0","id":1,"result":{"token":"a"}},{"id":2,"jsonrpc":"2.0","error":{"token":"b"}}]',
    ),
    "a batch that holds something else": (
        b'[{"jsonrpc":"2.0","method":"m"},{"token":"a"}]',
        b'[{"jsonrpc":"2.0","method":"m"},{"token":"*1"}]',
    ),
    "what names jsonrpc in a text": (b'{"x":"\\"jsonrpc\\"","y":"jsonrpc","token":"a"}', None),
    "what names jsonrpc deeper down": (b'{"x":{"jsonrpc":"2.0","method":"m"},"token":"a"}', None),
    "what has jsonrpc and no method": (b'{"jsonrpc":"2.0","token":"a"}', None),
    "a form that names jsonrpc": (b'x="jsonrpc"&token=a', None),
    "a part of a form": (PART % (b'"client_secret"', b"abc"), PART % (b'"client_secret"', b"*3")),
    "a part of another name": (PART % (b"note", b"abc"), PART % (b"note", b"abc")),
    "a part that is JSON": (PART % (b"x", b'{"apiKey":"k"}'), PART % (b"x", b'{"apiKey":"*1"}')),
    "a page": (b'<input name="token" value="a">&b', b'<input name="token" value="a">&b'),
    "a sentence": (b"Your token = abc; so", b"Your token = abc; so"),
    "text": (b"code: abc", b"code: abc"),
    "nothing": (b"", b""),
}  # fmt: skip


@pytest.mark.parametrize(("raw", "expected"), BODIES.values(), ids=BODIES)
def test_a_body(raw: bytes, expected: bytes | None) -> None:
    if expected is None:  # the last value alone is masked
        expected = re.sub(rb'a("\}|$)', rb"*1\1", raw)
    assert shown(MASKER.body(raw).decode("latin-1")).encode("latin-1") == expected


@pytest.mark.parametrize("name", sorted(SECRETS))
def test_every_secret_in_every_place(name: str) -> None:
    assert "hush" not in MASKER.url(f"/x?{name}=hush")
    assert b"hush" not in MASKER.body(f"a=1&{name}=hush".encode())
    assert b"hush" not in MASKER.body(json.dumps({name: "hush"}).encode())


def test_a_body_with_masked_numbers_is_json() -> None:
    masked = json.loads(MASKER.body(b'{"pin":1234,"passwords":[56,-7.8e9,null,true],"n":9}'))
    assert MASK.fullmatch(masked["pin"])
    assert all(MASK.fullmatch(number) for number in masked["passwords"][:2])
    assert (masked["passwords"][2:], masked["n"]) == ([None, True], 9)


def test_every_name_of_a_secret_contains_a_stem() -> None:
    for name in (*SECRETS, *SECRET_WORDS, *UNSEPARATED):
        assert any(stem in name for stem in STEMS)


def test_equal_values_have_equal_masks_in_one_recording_only() -> None:
    def masked(masker: Masker, value: str) -> str:
        return masker.headers((("Mcp-Session-Id", value),))[0][1]

    assert masked(MASKER, "a") == masked(Masker(b"salt"), "a")
    assert masked(MASKER, "a") != masked(MASKER, "b")
    assert masked(MASKER, "a") != masked(Masker(b"pepper"), "a")


def test_a_rule_learns_what_it_needs() -> None:
    (_, value), (_, id) = MASKER.headers((("Authorization", "Bearer tök"), ("Mcp-Session-Id", "a b")))
    scheme, rest = credential(value)
    assert (scheme, as_mask(rest).length, as_mask(rest).visible) == ("bearer", 3, False)
    assert (as_mask(id).length, as_mask(id).visible) == (3, False)


def test_what_is_masked_stays_so() -> None:
    once = MASKER.url("/x?code=abc")
    assert MASKER.url(once) == once


def test_everything_may_be_kept() -> None:
    keeper = Masker(b"salt", keep=True)
    headers = (("Authorization", "Bearer abc"), ("Cookie", "a=1"))
    assert keeper.headers(headers) == headers
    assert keeper.url("/x?code=abc") == "/x?code=abc"
    assert keeper.body(b"code=abc") == b"code=abc"


@pytest.mark.parametrize(
    "text", ["?a=" + "%25" * 3000, '{"a"' * 3000, '"' * 9999, "?" + "a=%3D&" * 3000, "://" * 3000]
)
def test_hostile_text_takes_no_time(text: str) -> None:
    assert MASKER.url(text) is not None
    assert MASKER.body(b"{" + text.encode()) is not None


GROWING = {
    "members": b'{"a":[' + b'{"sig":"x"},' * 20_000 + b"1]}",
    "numbers": b'{"secrets":[' + b"1," * 50_000 + b"1]}",
    "texts": b'{"secrets":[' + b'"x",' * 50_000 + b"1]}",
    "fields": b"a=b&" + b"pwd=x&" * 50_000,
}


@pytest.mark.parametrize("raw", GROWING.values(), ids=GROWING)
def test_masks_do_not_make_a_body_a_multiple_of_what_passed(raw: bytes) -> None:
    masked = MASKER.body(raw)
    assert len(masked) < 200
    assert MASK.fullmatch(masked.decode().strip('"'))
    assert MASKER.body(b"pwd=x") != b"pwd=x"  # the next one is masked as ever


def test_parts_without_end_are_masked_at_the_end() -> None:
    part = b"--B\r\nContent-Disposition: form-data; name=%b\r\n\r\n%b\r\n"
    masked = MASKER.body(part % (b"x", b"plain") * 1200 + part % (b"token", b"hush"))
    assert masked.count(b"plain") > 900
    assert b"hush" not in masked


@pytest.mark.parametrize(
    "raw",
    [
        b"\xef\xbb\xbf" * 100_000 + b"pwd=x",
        b"[" * 500_000 + b'{"token":"x"}',
        b'{"token":' * 100_000 + b'"x"' + b"}" * 100_000,
        b"--a\r\nContent-Type: x\r\n\r\n" * 50_000,
        b"--a\r\nContent-Disposition: " + b"; " * 200_000 + b"\r\n\r\n",
        b'{"jsonrpc":"2.0","id":"' + b"\\" * 300_000,
        b'{"x":"jsonrpc","jsonrpc":' + b"[" * 300_000,
    ],
    ids=["marks", "lists", "objects", "parts", "parameters", "an id", "depth"],
)
def test_hostile_bodies_take_no_time(raw: bytes) -> None:
    assert MASKER.body(raw)


def test_an_endless_session_id_is_masked_and_not_remembered() -> None:
    learned: dict[str, None] = {}
    masked = Masker(b"salt", learned=learned).endpoint(b"/messages?sessionId=" + b"x1" * 1000)
    assert shown(masked.decode()) == "/messages?sessionId=*2000"
    assert learned == {}
