"""What tests of the benchmarks share."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture
def tiny_data(tmp_path, monkeypatch):
    """PENDIGITS with ten blobs for digits."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(10), 20)
    centres = 12.0 * np.stack([np.cos(np.arange(10)), np.sin(3 * np.arange(10)), np.arange(10) % 3], axis=1)
    np.savez(tmp_path / "PENDIGITS.npz", X=centres[y] + rng.normal(size=(200, 3)), y=y)
    monkeypatch.setenv("STREAM_OSR_DATA", str(tmp_path))
    return tmp_path
