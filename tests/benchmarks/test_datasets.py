from __future__ import annotations

import numpy as np
import pytest

from benchmarks.paper import datasets
from stream_osr.errors import ConnectorError, InvalidParameter, StreamOSRError
from tests.data import need_data


@pytest.fixture
def directory(tmp_path, monkeypatch):
    monkeypatch.setenv("STREAM_OSR_DATA", str(tmp_path))
    return tmp_path


@pytest.mark.needs("data")
@pytest.mark.parametrize(
    ("name", "shape", "n_classes", "kind"),
    [
        ("LETTER", (20000, 16), 26, str),
        ("PENDIGITS", (10992, 16), 10, int),
        ("USPS", (7291, 256), 10, int),
        ("COIL20", (1440, 256), 20, int),
        ("YALEB", (2414, 1024), 38, int),
        ("SATIMAGE", (6435, 36), 6, int),
        ("SHUTTLE", (58000, 9), 7, int),
    ],
)
def test_sets_have_the_size_that_the_paper_and_the_providers_state(name, shape, n_classes, kind):
    X, y = need_data(name)
    assert X.shape == shape
    assert X.dtype == np.float64
    assert np.isfinite(X).all()
    assert len(set(y.tolist())) == n_classes
    assert {type(label) for label in y.tolist()} == {kind}


@pytest.mark.needs("data")
def test_usps_is_the_providers_training_part_unless_all_is_asked_for():
    part, everything = need_data("USPS"), need_data("USPS", full=True)
    assert len(everything.X) == 9298
    np.testing.assert_array_equal(part.X, everything.X[:7291])
    np.testing.assert_array_equal(part.y, everything.y[:7291])


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


def test_missing_file_says_where_it_looked_and_what_to_do(directory):
    with pytest.raises(FileNotFoundError) as caught:
        datasets.load("USPS")
    message = str(caught.value)
    assert str(directory / "USPS.npz") in message
    assert "STREAM_OSR_DATA" in message
    assert "zip.train" in message
    assert isinstance(caught.value, StreamOSRError)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": np.zeros((2, 2))}, "cannot be read"),
        ({"X": np.zeros((2, 2)), "y": np.zeros(3)}, "y of shape"),
        ({"X": np.zeros(3), "y": np.zeros(3)}, "X of shape"),
        ({"X": np.zeros((2, 2)), "y": np.array([{}, 1], dtype=object)}, "cannot be read"),
    ],
    ids=["no labels", "too many labels", "no rows", "pickled labels"],
)
def test_file_of_another_kind_is_refused(directory, arrays, message):
    np.savez(directory / "COIL20.npz", **arrays)
    with pytest.raises(ConnectorError, match=message) as caught:
        datasets.load("COIL20")
    assert not isinstance(caught.value, FileNotFoundError)


@pytest.mark.parametrize("content", [b"", b"not an archive", b"PK\x03\x04 cut short"])
def test_damaged_file_is_refused(directory, content):
    (directory / "COIL20.npz").write_bytes(content)
    with pytest.raises(ConnectorError, match="cannot be read"):
        datasets.load("COIL20")


def test_usps_without_its_division_is_refused_unless_all_is_asked_for(directory):
    np.savez(directory / "USPS.npz", X=np.zeros((3, 2)), y=np.zeros(3))
    with pytest.raises(ConnectorError, match="n_train"):
        datasets.load("USPS")
    assert len(datasets.load("USPS", full=True).X) == 3


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(InvalidParameter, match="LETTER, PENDIGITS, USPS"):
        datasets.load("letter")
