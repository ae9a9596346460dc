"""Guards around custom checks, so that a mistake in one affects only its own rules.

Custom checks run in the recorder of a session, or in the relay that enforces rules, where an exception would
stop everything. So if a check raises an exception or yields something other than a valid ``Violation``, that
becomes a ``CustomRuleError`` with the line of the check, and the session continues without the rule.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import wraps
from types import FunctionType
from typing import ParamSpec, TypeAlias, get_args

from mcpproxy.checks.engine.context import Violation
from mcpproxy.checks.engine.rows import Check, EventCheck, HttpCheck, RuleFamily, StateUpdate
from mcpproxy.errors import McpProxyError
from mcpproxy.protocol.rules import Catalogue
from mcpproxy.session.frame import Blame, Severity

P = ParamSpec("P")


class CustomRuleError(McpProxyError):
    """A custom rule cannot be used: the place, what is wrong, and what to do next."""

    def __init__(self, where: str, fact: str, next_step: str) -> None:
        super().__init__(f"{where}: {fact}; {next_step}")


OnFault: TypeAlias = Callable[[tuple[str, ...], CustomRuleError], None]
"""Called once per mistake, with the codes of the rules that are left out from now on, and the error."""


def guarded(family: RuleFamily, own: Catalogue, on_fault: OnFault | None = None) -> RuleFamily:
    """Return ``family`` with each function guarded; its checks may report only requirements of ``own``.

    If a function makes a mistake, it raises ``CustomRuleError``. With ``on_fault``, it calls that with the
    error instead, and its rules are left out.
    """
    all_rules = tuple(dict.fromkeys(code for row in _rows(family) for code in row.rules))
    left_out: set[str] = set()

    def check(
        row: Check | HttpCheck | EventCheck, call: Callable[P, Iterable[Violation]]
    ) -> Callable[P, Iterator[Violation]]:
        safe = _guard(call, own)
        return safe if on_fault is None else _leaving_out(safe, row.rules, left_out, on_fault)

    def write(row: StateUpdate) -> StateUpdate:
        safe = _guard_update(row.write)
        if on_fault is not None:
            # All rules of a family may depend on its state, so a failed update leaves all of them out.
            safe = _leaving_out_update(safe, all_rules, left_out, on_fault)
        return replace(row, write=safe)

    return replace(
        family,
        # ``unless`` only saves time, and it could raise as well, so it is removed.
        checks=tuple(replace(row, check=check(row, row.check), unless=None) for row in family.checks),
        http=tuple(replace(row, check=check(row, row.check)) for row in family.http),
        events=tuple(replace(row, check=check(row, row.check)) for row in family.events),
        updates=tuple(write(row) for row in family.updates),
    )


def _rows(family: RuleFamily) -> tuple[Check | HttpCheck | EventCheck, ...]:
    return (*family.checks, *family.http, *family.events)


def _guard(check: Callable[P, Iterable[Violation]], own: Catalogue) -> Callable[P, Iterator[Violation]]:
    """Wrap ``check`` so that its mistakes raise ``CustomRuleError`` with the line of the function."""
    where = _place(check)

    @wraps(check)
    def guarded_check(*args: P.args, **kwargs: P.kwargs) -> Iterator[Violation]:
        try:
            for violation in check(*args, **kwargs):
                _refuse_invalid(where, violation, own)
                yield violation
        except CustomRuleError:
            raise
        except (Exception, SystemExit) as error:
            raise _failed(where, "check", error) from error

    return guarded_check


def _guard_update(write: Callable[P, None]) -> Callable[P, None]:
    where = _place(write)

    @wraps(write)
    def guarded_update(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            write(*args, **kwargs)
        except (Exception, SystemExit) as error:
            raise _failed(where, "state update", error) from error

    return guarded_update


def _leaving_out(
    check: Callable[P, Iterator[Violation]], rules: tuple[str, ...], left_out: set[str], on_fault: OnFault
) -> Callable[P, Iterator[Violation]]:
    """Wrap ``check`` so that after a mistake its rules are left out and it yields nothing more."""

    @wraps(check)
    def guarded_call(*args: P.args, **kwargs: P.kwargs) -> Iterator[Violation]:
        if not left_out.isdisjoint(rules):
            return
        try:
            yield from check(*args, **kwargs)
        except CustomRuleError as fault:
            left_out.update(rules)
            on_fault(rules, fault)

    return guarded_call


def _leaving_out_update(
    write: Callable[P, None], rules: tuple[str, ...], left_out: set[str], on_fault: OnFault
) -> Callable[P, None]:
    has_failed = False

    @wraps(write)
    def guarded_call(*args: P.args, **kwargs: P.kwargs) -> None:
        nonlocal has_failed
        if has_failed:
            return
        try:
            write(*args, **kwargs)
        except CustomRuleError as fault:
            has_failed = True
            left_out.update(rules)
            on_fault(rules, fault)

    return guarded_call


def _refuse_invalid(where: str, violation: Violation, own: Catalogue) -> None:
    """Raise unless the violation can be recorded and reported: custom rules may not be type-checked."""
    if f"{violation.rule}/{violation.requirement}" not in own.requirements:
        fact = f"it reported {violation.rule} {violation.requirement}, which no table describes"
        raise CustomRuleError(where, fact, "report a requirement of its own rule")
    is_valid = (
        _have_type(str, violation.message, violation.pointer or "")
        and _have_type(int, violation.frame or 0, *violation.related)
        and violation.blame in (None, *get_args(Blame))
        and violation.at_most in (None, *get_args(Severity))
    )
    if not is_valid:
        fact = f"it reported a violation of {violation.rule} whose fields have other types"
        raise CustomRuleError(where, fact, "see mcpproxy.custom_rules.Violation")


def _have_type(kind: type, *values: object) -> bool:
    return all(isinstance(value, kind) for value in values)


def _failed(where: str, what: str, error: BaseException) -> CustomRuleError:
    fact = f"the {what} failed: {type(error).__name__}: {error}"
    return CustomRuleError(where, fact, f"a {what} must take whatever a peer sends")


def _place(check: Callable[..., object]) -> str:
    if not isinstance(check, FunctionType):
        return repr(check)
    return f"{check.__code__.co_filename}:{check.__code__.co_firstlineno}"
