"""The rows of checks agree with their docstrings and code, and the catalogue has all that they report."""

import ast
import inspect
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Final

import mcpproxy
from mcpproxy.judge import checks
from mcpproxy.judge.checks import (
    BATCH_CHECKS,
    FRAME_CHECKS,
    SPLIT_CHECKS,
    STANDARD,
)
from mcpproxy.judge.checks.engine.context import MessageContext, Violation
from mcpproxy.judge.checks.engine.dispatch import Dispatch
from mcpproxy.judge.checks.engine.rows import ASKS, KIND_NAMES, Check, Kind, RuleFamily
from mcpproxy.judge.ruleset import catalogue
from mcpproxy.judge.session.frame import SERVER
from mcpproxy.judge.session.history import History
from mcpproxy.protocol.jsonrpc import Malformed, Notification, Request, Response, Single
from mcpproxy.protocol.methods import extension_methods, revisions_with
from mcpproxy.protocol.revisions import REVISIONS
from tests.every import every

CODE: Final = re.compile(r"[A-Z]{2,}-\d{3}")
REQUIREMENT: Final = re.compile(r"[ADRX]-\d{3}")

Function = Callable[..., object]


def decided() -> dict[str, tuple[Function, set[str]]]:
    """Return each check of messages by name, with the rules that its rows list."""
    functions: dict[str, Function] = {}
    rules: defaultdict[str, set[str]] = defaultdict(set)
    rows: list[tuple[tuple[str, ...], Function]] = [
        *((row.rules, row.check) for row in (*STANDARD.message_checks, *STANDARD.event_checks)),
        *((row.rules, row.check) for row in STANDARD.for_protocol("acp").message_checks),
        *FRAME_CHECKS,
        *BATCH_CHECKS,
        *SPLIT_CHECKS,
    ]
    for codes, check in rows:
        name = f"{check.__module__}.{check.__name__}"
        functions[name] = check
        rules[name] |= set(codes)
    return {name: (function, rules[name]) for name, function in functions.items()}


DECIDED: Final = decided()


@every("name", DECIDED)
def test_the_docstring_of_a_check_names_the_rules_it_decides(name: str) -> None:
    check, rules = DECIDED[name]
    assert check.__doc__ is not None
    assert set(CODE.findall(check.__doc__.partition("\n\n")[0])) == rules


@every("name", DECIDED)
def test_a_check_reports_only_the_rules_of_its_rows(name: str) -> None:
    check, rules = DECIDED[name]
    constants = (
        n.value for n in ast.walk(ast.parse(inspect.getsource(check))) if isinstance(n, ast.Constant)
    )
    assert {text for text in constants if isinstance(text, str) and CODE.fullmatch(text)} <= rules


@cache
def reported() -> set[tuple[str, str]]:
    """Return the (rule, requirement) pairs that occur in the checks and transition tables."""
    found: set[tuple[str, str]] = set()
    folder = Path(checks.__file__).parent
    protocol = Path(mcpproxy.__file__).parent / "protocol"
    tables = (protocol / "lifecycle.py", protocol / "task_lifecycle.py")
    for path in [*folder.rglob("*.py"), *tables]:
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Call | ast.Tuple):
                items = node.args if isinstance(node, ast.Call) else node.elts
                texts = [i.value for i in items if isinstance(i, ast.Constant) and isinstance(i.value, str)]
                match texts:
                    case [rule, requirement, *_] if CODE.fullmatch(rule) and REQUIREMENT.fullmatch(
                        requirement
                    ):
                        found.add((rule, requirement))
                    case _:
                        pass
    return found


def test_the_catalogue_knows_what_is_reported() -> None:
    known = catalogue.load().requirements
    unknown = {pair for pair in reported() if "/".join(pair) not in known}
    assert unknown == set()
    assert {pair for pair in reported() if known["/".join(pair)].unobservable} == set()


def test_arguments_of_a_violation_after_its_message_are_keywords() -> None:
    positional = [
        f"{path.name}:{node.lineno}"
        for path in Path(checks.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "Violation"
        and len(node.args) > 3
    ]
    assert positional == []


def test_pairs_are_found() -> None:
    assert {("PROTO-007", "R-008"), ("SEQ-003", "R-033"), ("SCHEMA-005", "R-135")} <= reported()


@every("row", STANDARD.message_checks, ids=lambda row: row.check.__name__)
def test_a_row_names_methods_that_exist(row: Check) -> None:
    assert row.kinds
    assert all(method in extension_methods() or revisions_with(method) for method in row.methods)


def checks_for(kind: type[Single], method: str) -> set[str]:
    """Return the names of the checks that run on such a message of the server."""
    passed = (kind, method, SERVER, REVISIONS)
    everything = Dispatch(STANDARD.families, narrowed=False).plans[passed].no_members.selected[0]
    return {check.__name__ for check in everything[0] if isinstance(check, FunctionType)}


def test_a_message_is_given_to_the_checks_that_concern_it() -> None:
    names = checks_for(Response, "tools/list")
    assert {"response_id", "missing_name", "tool_schemas"} <= names
    assert "missing_name" not in checks_for(Response, "tools/call")
    assert checks_for(Malformed, "") == checks_for(Malformed, "tools/list")
    assert all(checks_for(kind, "ping") for kind in KIND_NAMES)


def test_a_row_gives_its_kinds_as_classes_or_by_their_names() -> None:
    def untidy(context: MessageContext, history: History) -> Iterator[Violation]:
        yield Violation("HOUSE-001", "H-001", "")

    given: tuple[tuple[type[Single] | Kind, ...], ...] = (
        ASKS,
        ("request", "notification"),
        (Request, "notification"),
    )
    for kinds in given:
        plans = Dispatch([RuleFamily((Check(("HOUSE-001",), untidy, kinds),))]).plans
        plan = {kind: plans[kind, "ping", SERVER, REVISIONS].no_members for kind in KIND_NAMES}
        assert [kind for kind in KIND_NAMES if plan[kind].selected[0][0]] == [Request, Notification]
