"""Machine code that outlives a checkout is that of the same sources, on the same machine; nothing else is taken."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path

import llvmlite.binding as llvm
import numba
import pytest

from stream_osr.compiling import ONCE
from stream_osr.model import compiler, kernel_cache
from tests.test_compiling import package, run  # noqa: F401  # a fixture
from tools import kept

CODE = ("step.walk-3.py311.nbi", "step.walk-3.py311.1.nbc")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of two modules, one of which imports the other and has a compiled kernel."""
    root = tmp_path / "checkout"
    monkeypatch.setattr(kernel_cache, "ROOT", root)
    (machine := root / "stream_osr" / "__pycache__").mkdir(parents=True)
    (root / "stream_osr" / "step.py").write_text("from stream_osr.seats import sit\n")
    (root / "stream_osr" / "seats.py").write_text("sit = 1\n")
    for name in (*CODE, "step.cpython-311.pyc", "seats.cpython-311.pyc"):
        (machine / name).write_text(name)
    return root


def taken(root: Path, folder: Path) -> list[str]:
    """What is found beside the sources of a checkout that has nothing, after taking what is kept."""
    kernel_cache.source_stamp.cache_clear()
    kernel_cache._imported.cache_clear()
    kernel_cache._digest.cache_clear()
    shutil.rmtree(root / "stream_osr" / "__pycache__")
    count = kept.take(root, folder)
    found = sorted(path.name for path in root.rglob("__pycache__/*"))
    assert len(found) == count
    return found


@pytest.mark.parametrize("changed", ["step.py", "seats.py"])
def test_that_of_other_sources_is_left(checkout: Path, tmp_path: Path, changed: str) -> None:
    kept.keep(checkout, tmp_path / "kept")
    path = checkout / "stream_osr" / changed
    before = path.read_text()
    path.write_text(before + "# changed\n")
    assert taken(checkout, tmp_path / "kept") == []
    path.write_text(before)
    (checkout / "stream_osr" / "__pycache__").mkdir()
    assert taken(checkout, tmp_path / "kept") == sorted(CODE)


def test_that_of_another_machine_is_left(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.keep(checkout, tmp_path / "kept")
    for where, name, value in (
        (numba, "__version__", "0.1.2"),
        (llvm, "get_host_cpu_name", lambda: "another"),
        (llvm, "get_host_cpu_features", lambda: llvm.FeatureMap({"fma": False})),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(where, name, value)
            assert taken(checkout, tmp_path / "kept") == []
        (checkout / "stream_osr" / "__pycache__").mkdir()


def test_kernels_outside_the_library_call_none_of_each_other_s_modules() -> None:
    """Else they would be kept as they are when those change: a stamp follows imports from the library alone."""
    seen = 0
    for source in (path for place in ("benchmarks", "tests") for path in (kept.ROOT / place).rglob("*.py")):
        if "stream_osr.model.jit import" in source.read_text():
            module = importlib.import_module(".".join(source.relative_to(kept.ROOT).with_suffix("").parts))
            for held in vars(module).values():
                if isinstance(held, compiler.Kernel) and held.py_func.__module__ == module.__name__:
                    called = (held.py_func.__globals__.get(name) for name in held.py_func.__code__.co_names)
                    modules = {each.py_func.__module__ for each in called if isinstance(each, compiler.Kernel)}
                    assert all(name == module.__name__ or name.startswith("stream_osr.") for name in modules)
                    seen += 1
    assert seen > 5


@pytest.mark.thorough
def test_another_checkout_compiles_nothing(package: Path, tmp_path: Path) -> None:  # noqa: F811
    """The real thing: a kernel of the library, compiled in one folder and used in another."""
    program = "import sys\nfrom pathlib import Path\nfrom tools import kept\nprint(kept.%s(kept.ROOT, Path(%r)))"
    shutil.copytree(kept.ROOT / "tools", package.parent / "tools")
    other = shutil.copytree(package.parent, tmp_path / "elsewhere") / "stream_osr"
    assert run(package)[1] == ONCE + "\n"
    assert run(package, program=program % ("keep", str(tmp_path / "kept")))[0] == "2"
    assert run(other, program=program % ("take", str(tmp_path / "kept")))[0] == "2"
    place, said = run(other)
    assert Path(place).is_relative_to(other)
    assert said == ""
