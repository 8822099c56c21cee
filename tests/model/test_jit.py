"""What is compiled is kept on disk, and must not outlive the sources that it was made of."""

from __future__ import annotations

from pathlib import Path

from stream_osr.model import jit


def test_stamp_changes_with_the_kernel_s_source_and_with_any_of_the_package(tmp_path, monkeypatch):
    monkeypatch.setattr(jit, "__file__", str(tmp_path / "jit.py"))
    (tmp_path / "jit.py").write_text("one")
    (tmp_path / "seating.py").write_text("two")
    own = tmp_path / "elsewhere" / "kernels.py"
    own.parent.mkdir()
    own.write_text("four")
    stamp = jit.source_stamp.__wrapped__(own)
    assert jit.source_stamp.__wrapped__(own) == stamp
    (tmp_path / "seating.py").write_text("three")
    other = jit.source_stamp.__wrapped__(own)
    own.write_text("five")
    assert len({stamp, other, jit.source_stamp.__wrapped__(own)}) == 3


def test_kernels_carry_the_stamp():
    @jit.kernel
    def twice(x: float) -> float:
        return 2.0 * x

    assert twice(3.0) == 6.0
    assert twice._cache._cache_file._source_stamp == jit.source_stamp(Path(__file__))


def test_division_follows_ieee_rules():
    @jit.kernel
    def divide(x: float, y: float) -> float:
        return x / y

    assert divide(1.0, 0.0) == float("inf")
