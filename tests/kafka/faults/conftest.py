"""Those tests of the matrix that leave the broker alone run side by side, ahead of the others: most is waiting."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.kafka.brokers import Broker

pytest.register_assert_rewrite("tests.kafka.faults.trials", "tests.kafka.faults.auditing", "tests.kafka.faults.doing")
from tests.kafka.faults.trials import Site, kill_workers  # noqa: E402  # its assertions are to be rewritten

AT_ONCE = 7
"""Services side by side: most of the time each waits for something."""

HERE = Path(__file__).parent


def is_beside(item: pytest.Item) -> bool:
    """Tell whether a test runs beside others."""
    return "site" in getattr(item, "fixturenames", ()) and item.get_closest_marker("alone") is None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put those that leave the broker alone first, so that all that run at once are of that kind."""
    own = [item for item in items if HERE in item.path.parents]
    if own:
        at = items.index(own[0])
        others = [item for item in items if item not in own]
        own.sort(key=lambda item: not is_beside(item))
        items[:] = [*others[:at], *own, *others[at:]]


class Crowd:
    """Tests that run side by side."""

    def __init__(self, items: list[pytest.Function], broker: Broker, folder: Path) -> None:
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="fault")
        self._running: dict[str, Future[None]] = {}
        for number, item in enumerate(items):
            (own := folder / str(number)).mkdir()
            given = dict(item.callspec.params) if hasattr(item, "callspec") else {}
            self._running[item.nodeid] = self._pool.submit(item.obj, site=Site(broker, own), **given)

    def outcome(self, item: pytest.Item) -> None:
        """Wait for a test, and raise what it has raised."""
        self._running[item.nodeid].result()

    def wait(self) -> None:
        """Wait for all of them."""
        for each in self._running.values():
            each.exception()

    def end(self) -> None:
        """Start no more of them, and end what runs."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        kill_workers()
        self._pool.shutdown()


@pytest.fixture(scope="session")
def crowd(
    request: pytest.FixtureRequest, started: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Crowd]:
    """All tests of this run that leave the broker alone, under way."""
    items = [item for item in request.session.items if isinstance(item, pytest.Function) and is_beside(item)]
    started.start()
    crowd = Crowd(items, started, tmp_path_factory.mktemp("faults"))
    yield crowd
    crowd.end()


@pytest.fixture
def site(request: pytest.FixtureRequest, crowd: Crowd, started: Broker, tmp_path: Path) -> Iterator[Site]:
    """A place for a test: alone with the broker, or beside others."""
    if is_beside(request.node):
        yield Site(started, tmp_path)
        return
    crowd.wait()
    started.start()
    yield Site(started, tmp_path)
    kill_workers()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Take the outcome of a test that has run beside others."""
    if not is_beside(pyfuncitem):
        return None
    pyfuncitem.funcargs["crowd"].outcome(pyfuncitem)
    return True
