"""One thread for matrix products."""

from __future__ import annotations

from threadpoolctl import threadpool_info, threadpool_limits

from stream_osr.support.parallel import one_thread


def blas_threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_blas_has_one_thread_inside_and_what_it_had_outside():
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        assert before == {2}
        with one_thread():
            assert blas_threads() == {1}
        assert blas_threads() == before
