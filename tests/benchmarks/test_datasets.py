from __future__ import annotations

import numpy as np
import pytest

from benchmarks.paper import datasets
from stream_osr.errors import InvalidParameter, StreamOSRError
from tests.data import need_data


@pytest.fixture
def directory(tmp_path, monkeypatch):
    monkeypatch.setenv("STREAM_OSR_DATA", str(tmp_path))
    return tmp_path


SETS = {
    "LETTER": ((20000, 16), 26, str),
    "PENDIGITS": ((10992, 16), 10, int),
    "USPS": ((7291, 256), 10, int),
    "COIL20": ((1440, 256), 20, int),
    "YALEB": ((2414, 1024), 38, int),
    "SATIMAGE": ((6435, 36), 6, int),
    "SHUTTLE": ((58000, 9), 7, int),
}
"""Shape, number of classes and type of the labels, as the paper and the providers state them."""


@pytest.mark.needs("data")
@pytest.mark.parametrize("name", SETS)
def test_sets_have_the_size_that_the_paper_and_the_providers_state(name):
    X, y = need_data(name)
    assert (X.shape, len(set(y.tolist())), type(y.tolist()[0])) == SETS[name]
    assert len({type(label) for label in y.tolist()}) == 1
    assert X.dtype == np.float64
    assert np.isfinite(X).all()


@pytest.mark.needs("data")
def test_experiments_of_the_paper_fit_the_sets():
    assert datasets.KNOWN_CLASSES.keys() == datasets.UNKNOWN_CLASSES.keys()
    for name, n_known in datasets.KNOWN_CLASSES.items():
        middle, highest = datasets.UNKNOWN_CLASSES[name]
        X, y = need_data(name)
        # The highest openness of the paper takes in every class there is.
        assert n_known + highest == len(np.unique(y))
        assert 0 < middle < highest
        assert datasets.PCA_DIMENSIONS.get(name, 16) <= X.shape[1]


def test_directory_is_beside_the_checkout_otherwise(monkeypatch, pytestconfig):
    expected = pytestconfig.rootpath.resolve().parent / "shared" / "data"
    monkeypatch.delenv("STREAM_OSR_DATA", raising=False)
    assert datasets.data_directory() == expected
    monkeypatch.setenv("STREAM_OSR_DATA", "")
    assert datasets.data_directory() == expected


def test_the_error_of_a_missing_file_names_the_place_and_the_remedy(directory):
    with pytest.raises(FileNotFoundError) as caught:
        datasets.load("USPS")
    assert isinstance(caught.value, StreamOSRError)
    for text in (str(directory / "USPS.npz"), "STREAM_OSR_DATA", "zip.train"):
        assert text in str(caught.value)
    with pytest.raises(InvalidParameter, match="LETTER, PENDIGITS, USPS"):
        datasets.load("letter")
