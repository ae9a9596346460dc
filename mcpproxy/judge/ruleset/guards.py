"""Guards around custom checks, so that a mistake in a check affects only the rules of that check.

Custom checks are the user's own code. They run in the process that records a session or enforces rules, where
an exception would stop everything. A guard is a wrapper around a check function. If the check raises an
exception, or yields something that is not a valid ``Violation``, the guard raises a ``CustomRuleError`` with
the place of the check, or passes that error to a function and leaves out the rules of the check.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import wraps
from types import FunctionType
from typing import ParamSpec, TypeAlias, get_args

from mcpproxy.errors import McpProxyError
from mcpproxy.judge.checks.engine.context import Violation
from mcpproxy.judge.checks.engine.rows import Check, EventCheck, HttpCheck, RuleFamily, StateUpdate
from mcpproxy.judge.session.frame import Blame, Severity
from mcpproxy.protocol.rules import Catalogue

P = ParamSpec("P")


class CustomRuleError(McpProxyError):
    """A custom rule cannot be used: the place, what is wrong, and what to do next."""

    def __init__(self, where: str, fact: str, next_step: str) -> None:
        super().__init__(f"{where}: {fact}; {next_step}")


OnFault: TypeAlias = Callable[[tuple[str, ...], CustomRuleError], None]
"""A function that is called once for each mistake, with the codes of the rules left out and the error."""


def guarded(family: RuleFamily, custom_rules: Catalogue, on_fault: OnFault | None = None) -> RuleFamily:
    """Return ``family`` with a guard around each function. Checks may only report rules in ``custom_rules``.

    Checks of stderr have no guard, because ``mcpproxy.custom_rules`` does not offer them.
    Without ``on_fault``, a mistake raises ``CustomRuleError``. With ``on_fault``, that function is called,
    and the rules of the check (of the whole family, if an update failed) are left out from then on.
    """
    all_rules = tuple(dict.fromkeys(code for row in _check_rows(family) for code in row.rules))
    left_out: set[str] = set()

    def guard_check(
        row: Check | HttpCheck | EventCheck, check: Callable[P, Iterable[Violation]]
    ) -> Callable[P, Iterator[Violation]]:
        guarded_check = _guard_check(check, custom_rules)
        if on_fault is None:
            return guarded_check
        return _leave_out_on_fault(guarded_check, row.rules, left_out, on_fault)

    def guard_update(row: StateUpdate) -> StateUpdate:
        guarded_write = _guard_update(row.write)
        if on_fault is not None:
            # All rules of a family may depend on its state, so a failed update leaves all of them out.
            guarded_write = _stop_on_fault(guarded_write, all_rules, left_out, on_fault)
        return replace(row, write=guarded_write)

    return replace(
        family,
        # ``unless`` could raise an exception, too. It only saves time, so it is removed.
        checks=tuple(replace(row, check=guard_check(row, row.check), unless=None) for row in family.checks),
        http=tuple(replace(row, check=guard_check(row, row.check)) for row in family.http),
        events=tuple(replace(row, check=guard_check(row, row.check)) for row in family.events),
        updates=tuple(guard_update(row) for row in family.updates),
    )


def _check_rows(family: RuleFamily) -> tuple[Check | HttpCheck | EventCheck, ...]:
    return (*family.checks, *family.http, *family.events)


def _guard_check(
    check: Callable[P, Iterable[Violation]], custom_rules: Catalogue
) -> Callable[P, Iterator[Violation]]:
    """Wrap ``check`` so that its mistakes raise ``CustomRuleError`` with the line of the function."""
    where = _place(check)

    @wraps(check)
    def guarded_check(*args: P.args, **kwargs: P.kwargs) -> Iterator[Violation]:
        try:
            for violation in check(*args, **kwargs):
                _refuse_invalid(where, violation, custom_rules)
                yield violation
        except CustomRuleError:
            raise
        except (Exception, SystemExit) as error:
            raise _custom_rule_error(where, "check", error) from error

    return guarded_check


def _guard_update(write: Callable[P, None]) -> Callable[P, None]:
    """Wrap ``write``, the function of a state update, so that its exceptions become ``CustomRuleError``."""
    where = _place(write)

    @wraps(write)
    def guarded_update(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            write(*args, **kwargs)
        except (Exception, SystemExit) as error:
            raise _custom_rule_error(where, "state update", error) from error

    return guarded_update


def _leave_out_on_fault(
    check: Callable[P, Iterator[Violation]], rules: tuple[str, ...], left_out: set[str], on_fault: OnFault
) -> Callable[P, Iterator[Violation]]:
    """Wrap a guarded check so that a mistake calls ``on_fault`` and adds ``rules`` to ``left_out``.

    While one of ``rules`` is left out, the check is not called.
    """

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


def _stop_on_fault(
    write: Callable[P, None], rules: tuple[str, ...], left_out: set[str], on_fault: OnFault
) -> Callable[P, None]:
    """Wrap a guarded update so that a mistake calls ``on_fault`` and adds ``rules`` to ``left_out``.

    After that, the update is no longer called.
    """
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


def _refuse_invalid(where: str, violation: Violation, custom_rules: Catalogue) -> None:
    """Raise ``CustomRuleError`` if a violation is of no custom requirement, or has fields of other types."""
    if f"{violation.rule}/{violation.requirement}" not in custom_rules.requirements:
        fact = f"it reported {violation.rule} {violation.requirement}, which no custom table describes"
        raise CustomRuleError(where, fact, "report a requirement of a table in your folders")
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


def _custom_rule_error(where: str, what: str, error: BaseException) -> CustomRuleError:
    fact = f"the {what} failed: {type(error).__name__}: {error}"
    return CustomRuleError(where, fact, f"a {what} must take whatever a peer sends")


def _place(check: Callable[..., object]) -> str:
    if not isinstance(check, FunctionType):
        return repr(check)
    return f"{check.__code__.co_filename}:{check.__code__.co_firstlineno}"
