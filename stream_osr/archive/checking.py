"""Every record is checked, parts before the whole: its fields by their rules, then beside each other."""

from __future__ import annotations

from typing import Any

from stream_osr.archive import model_checks, stream_checks
from stream_osr.archive.form import Form, Refused, form_of
from stream_osr.archive.needs import need
from stream_osr.archive.records import BY_TYPE, RECORDS
from stream_osr.archive.rules import Rule, Scope
from stream_osr.errors import PersistenceError
from stream_osr.showing import printable

CHECKS = {**model_checks.CHECKS, **stream_checks.CHECKS}
REMEDY = "save it again, or go back to an earlier copy"


def check_records(value: Any) -> None:
    """Check every record in a value, as deep as it lies.

    Raises
    ------
    Refused
        Naming record and field.
    """
    if isinstance(value, Form):
        if value.sizes is None:
            _check_record(value)
    elif isinstance(value, tuple | list | dict):
        for each in (*value, *value.values()) if isinstance(value, dict) else value:
            check_records(each)


def _check_record(form: Form) -> None:
    entry = RECORDS.get(form.name)
    if entry is None:
        raise Refused(f"record {printable(form.name, 60)}", "unknown", "one that this release knows")
    for name in form.values:
        field = f"{form.name}.{printable(str(name), 60)}"
        need(name in entry.rules, field, "unknown", "a field that this release knows")
    check_records(tuple(form.values.values()))
    scope = Scope()
    for name, rule in entry.rules.items():
        need(name in form.values, f"{form.name}.{name}", "missing", "a value")
        rule(form.values[name], f"{form.name}.{name}", scope)
    for letter in entry.letters:
        need(letter in scope, form.name, f"empty: nothing says how many {letter} there are", "a field that does")
    form.sizes = tuple(scope[letter][0] for letter in entry.letters)
    if form.name in CHECKS:
        CHECKS[form.name](form)


def check_content(value: Any, rule: Rule, what: str) -> None:
    """Check a value in memory that an archive has held, its records included.

    Parameters
    ----------
    value
        The value.
    rule
        Of the whole.
    what
        What it is, for the message.

    Raises
    ------
    PersistenceError
        Naming the field.
    """
    form = form_of(value, BY_TYPE, {})
    try:
        check_records(form)
        rule(form, "", {})
    except Refused as refused:
        raise PersistenceError(f"{what} cannot be used: {told(refused)}") from None


def told(refused: Refused) -> str:
    """Say what was refused, and what to do."""
    return f"{printable(str(refused))}; {REMEDY}"
