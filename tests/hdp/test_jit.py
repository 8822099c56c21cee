"""What is compiled is kept on disk, and must not outlive the sources that it was made of."""

from __future__ import annotations

from stream_osr.hdp import jit


def test_stamp_changes_with_any_source_of_the_package(tmp_path, monkeypatch):
    monkeypatch.setattr(jit, "__file__", str(tmp_path / "jit.py"))
    (tmp_path / "jit.py").write_text("one")
    (tmp_path / "seating.py").write_text("two")
    stamp = jit.source_stamp.__wrapped__()
    assert jit.source_stamp.__wrapped__() == stamp
    (tmp_path / "seating.py").write_text("three")
    assert jit.source_stamp.__wrapped__() != stamp


def test_kernels_carry_the_stamp():
    @jit.kernel
    def twice(x: float) -> float:
        return 2.0 * x

    assert twice(3.0) == 6.0
    assert twice._cache._cache_file._source_stamp == jit.source_stamp()


def test_division_follows_ieee_rules():
    @jit.kernel
    def divide(x: float, y: float) -> float:
        return x / y

    assert divide(1.0, 0.0) == float("inf")
