"""The mutation table can be run: every place occurs once, and test modules exist for it."""

from __future__ import annotations

from tests.model.mutations import JUDGES, MUTATIONS, ROOT, judge


def test_every_mutation_applies_exactly_once() -> None:
    for mutation in MUTATIONS:
        text = (ROOT / "stream_osr" / mutation.file).read_text()
        assert text.count(mutation.old) == 1, mutation.name
        changed = text.replace(mutation.old, mutation.new)
        assert changed != text, mutation.name
        compile(changed, mutation.file, "exec")


def test_names_of_mutations_are_unique() -> None:
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS)


def test_there_are_judges_for_every_file() -> None:
    assert {mutation.file for mutation in MUTATIONS} <= set(JUDGES)
    for names in JUDGES.values():
        assert all((ROOT / judge(name)).is_file() for name in names)
