"""Words: river's TFIDF in front of the recognizer, as the example says."""

from __future__ import annotations

import pytest

from tests.examples import example


@pytest.mark.thorough
def test_topics_are_recognized_by_their_words() -> None:
    words = example("words")
    found = words.once(*words.corpus(), 0, chains=1)
    assert found.words > 2000
    assert found.known > 0.85
    assert found.new > 0.9
    assert 1 <= found.candidates.number <= 3
