"""The mutation table can be run: every place is there once, and somebody is asked about it."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.model.mutations import JUDGES, MUTATIONS, ROOT, Mutation, judge


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_every_mutation_applies_exactly_once(mutation: Mutation) -> None:
    text = (ROOT / "stream_osr" / mutation.file).read_text()
    assert text.count(mutation.old) == 1
    changed = text.replace(mutation.old, mutation.new)
    assert changed != text
    compile(changed, mutation.file, "exec")


def test_names_of_mutations_are_unique() -> None:
    assert not [name for name, times in Counter(m.name for m in MUTATIONS).items() if times > 1]


def test_there_are_judges_for_every_file() -> None:
    assert {mutation.file for mutation in MUTATIONS} <= set(JUDGES)
    for names in JUDGES.values():
        assert all((ROOT / judge(name)).is_file() for name in names)
