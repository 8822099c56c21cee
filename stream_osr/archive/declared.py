"""Rules of fields from their declared types, with rules as metadata of ``Annotated``."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from stream_osr.instances.labels import Label
from stream_osr.model.jit import Array
from stream_osr.support import rules
from stream_osr.support.rules import Rule

_OF_TYPES: dict[Any, Rule] = {
    bool: rules.flag,
    int: rules.whole(-rules.LARGEST, rules.LARGEST),
    float: rules.number(),
    str: rules.text(),
    Label: rules.label,
    Label | None: rules.maybe(rules.label),
    Any: rules.plain,
    Hashable: rules.plain,
}
"""Rules of plain types. Rules in their metadata take the place of these."""


def rule_of(hint: Any, name_of: Callable[[type[Any]], str]) -> Rule:
    """Return the rule of a type.

    Parameters
    ----------
    hint
        Type of a field. The metadata of ``Annotated`` are rules. Those of a tuple, a mapping or a record hold in
        addition to the rule of the type.
    name_of
        Function from the type of a record to its name.

    Raises
    ------
    TypeError
        If the type has no rule.
    """
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        kind, *more = parts
        complete = kind in _OF_TYPES or kind is Array
        return rules.every(*more) if complete else rules.every(rule_of(kind, name_of), *more)
    if hint in _OF_TYPES:
        return _OF_TYPES[hint]
    if origin in (UnionType, Union):
        kinds = [kind for kind in parts if kind is not NoneType]
        rule = rule_of(kinds[0], name_of) if len(kinds) == 1 else rules.record(*map(name_of, kinds))
        return rules.maybe(rule) if NoneType in parts else rule
    if origin is Literal:
        return rules.text(*parts)
    if origin in (tuple, list, Sequence):
        letter = str(len(parts)) if origin is tuple and parts[-1] is not ... else "*"
        return rules.many(rule_of(parts[0], name_of), letter, of=list if origin is list else tuple)
    if origin in (dict, Mapping):
        return rules.mapping(rule_of(parts[0], name_of), rule_of(parts[1], name_of))
    if not isinstance(hint, type) or hint is Array:
        raise TypeError(f"{hint} has no rule, see 'A record or a field more' in docs/archives.md")
    return rules.record(name_of(hint))
