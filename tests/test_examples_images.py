"""Images: the embedding of the example is what it says, and reaches what its page and the read-me say."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tests.data import need_data
from tests.documents.reading import ROOT
from tests.examples import example

PAGE = ROOT / "docs" / "tutorials" / "images.md"
SIDE = 16


@pytest.fixture(scope="module")
def images() -> ModuleType:
    return example("images")


@pytest.fixture(scope="module")
def drawn() -> np.ndarray:
    return np.random.default_rng(0).random((5, SIDE, SIDE))


def test_a_quarter_turn_moves_cells_and_directions(images: ModuleType, drawn: np.ndarray) -> None:
    there = images.gradients(drawn).reshape(-1, 8, 4, 4)
    turned = images.gradients(np.rot90(drawn, -1, axes=(1, 2))).reshape(-1, 8, 4, 4)
    np.testing.assert_allclose(turned, np.roll(np.rot90(there, -1, axes=(2, 3)), 2, axis=1), atol=1e-12)


def test_the_embedding_is_of_the_training_images_alone(images: ModuleType, drawn: np.ndarray) -> None:
    embed = images.reduced(images.gradients, drawn, components=3)
    np.testing.assert_allclose(embed(drawn)[1], embed(drawn[1:2])[0])


@pytest.mark.needs("data")
def test_usps(images: ModuleType) -> None:
    """One of the three runs of the page that :func:`test_the_page_on_usps` repeats."""
    need_data("USPS")
    check_usps(*images.once(*images.images_of("USPS"), "gradients", 0).figures()[:4])


def check_usps(unknown: float, known: float, micro_f: float, purity: float) -> None:
    """Check the shares that the read-me shows."""
    assert min(unknown, known, purity) > 0.98
    assert micro_f > 0.975


@pytest.mark.needs("data")
@pytest.mark.long
def test_the_page_on_usps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The part of the page that needs the images of USPS; the figures are those of the read-me."""
    from tests.documents.running import Session

    need_data("USPS")
    monkeypatch.chdir(tmp_path)
    _, _, page = PAGE.read_text().partition("<!-- not run: needs USPS")
    part, _, _ = page.partition("<!-- end of USPS -->")
    session = Session("images.md", tmp_path)
    assert session.run("<!-- in a checkout -->" + part.partition("-->")[2]) == 1
    shares = {name: list(map(float, rest[:4])) for name, *rest in map(str.split, session.printed.splitlines()[2:])}
    check_usps(*shares["gradients"])
    assert shares["gradients"][2] > shares["pixels"][2] + 0.01, "the embedding of the page is better than none"
