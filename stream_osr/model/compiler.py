"""Compilation of kernels with private classes of numba: intermediate code for callers, and a cache of machine code.

numba makes every function callable from Python. It optimises the function together with all its callees and emits
machine code, once at each level of the call tree. Most kernels are called by other kernels only. Those are compiled
to intermediate code alone (:func:`within`), and so are the parts of numba's own functions. A kernel that Python calls
is optimised as a whole and has machine code.

Machine code is cached on this machine until the sources change (:func:`source_stamp`). A platform's wheel contains
precompiled machine code. ``make wheel`` compiles it for the :data:`TARGETS` of the architecture, and for the Python
and numba versions of the build machine. Elsewhere, and for kernels whose sources have changed, kernels are compiled
as usual. Code that this machine compiled takes precedence.

If one of numba's private classes is missing, :mod:`stream_osr.model.jit` uses plain ``njit``.
"""

from __future__ import annotations

import gc
import hashlib
import platform
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from copy import copy
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, NullCache, _CacheLocator
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder, Flags
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.environment import Environment
from numba.core.registry import CPUDispatcher
from numba.core.runtime.nrt import rtsys
from numba.core.target_extension import CPU, jit_registry
from numba.core.targetconfig import ConfigStack
from numba.core.typed_passes import NativeLowering
from numba.extending import overload

from stream_osr.compiling import one_process

ROOT = Path(__file__).parents[2]
_REPORTS: list[Any] = llvm.ffi.lib._lock._cblist
_RAISE = "raise_with_shape_context"
_IMPORT = re.compile(r"^\s*from (stream_osr[\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)

FOLDER = Path(__file__).parents[1] / "compiled"
"""Precompiled machine code: a folder for each target, with folders as in the package.

Absent in a checkout and in the plain wheel.
"""


class Target(NamedTuple):
    """A kind of processor for which a wheel brings machine code.

    Attributes
    ----------
    name
        Its name in LLVM.
    needs
        Features that a processor of this architecture may lack.
    """

    name: str
    needs: tuple[str, ...] = ()


_V2 = ("cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3")
TARGETS = {
    "x86_64": (
        Target("x86-64-v3", (*_V2, "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")),
        Target("x86-64-v2", _V2),
    ),
    "aarch64": (Target("generic"),),
}
"""Targets of the wheels for Linux, by architecture, the best first."""


@cache
def source_stamp(source: Path) -> str:
    """Digest of a kernel's own source and of all sources of this package that it imports, directly or not.

    numba checks the kernel's own file only. It would keep using a kernel whose callees, in other modules, have
    changed. The digest covers the imports of the kernel's module, which include the callees and the types of the
    arguments. It also covers this module, which defines how kernels are compiled.
    """
    found, waiting = set[Path](), {source}
    while waiting:
        found |= waiting
        waiting = {path for known in waiting for path in _imported(known)} - found
    digest = hashlib.sha256()
    for path in sorted(found):
        digest.update(_digest(path))
    return digest.hexdigest()


@cache
def _digest(source: Path) -> bytes:
    return hashlib.sha256(source.read_bytes()).digest()


@cache
def _imported(source: Path) -> tuple[Path, ...]:
    """Find the sources of this package that a source imports. A package counts for the modules that it imports."""
    paths = []
    for module, names in _IMPORT.findall(source.read_text()):
        for name in ["", *re.findall(r"\w+", names)]:
            place = ROOT.joinpath(*module.split("."), name)
            paths += [path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()]
    return tuple(paths)


def within(function: Callable[..., object], options: dict[str, Any], *, unrolls: bool = False) -> Any:
    """Make a dispatcher of a function that other kernels can call and Python cannot."""
    only = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    compiler = _UnrollingCompiler if unrolls else _BodyCompiler
    return CPUDispatcher(function, targetoptions={**options, **only}, pipeline_class=compiler)


class _Body(JITCodeLibrary):
    """Intermediate code to link into the code of callers."""

    unrolls = False

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout
        if self.unrolls:
            passes, builder = self._codegen._module_pass_manager()
            passes.run(ll_module, builder)
            return
        for function in ll_module.functions:
            if not function.is_declaration:
                passes, builder = self._codegen._function_pass_manager(opt=1)
                passes.run(function, builder)

    def _optimize_final_module(self) -> None:
        """Skip the optimisation. The caller's library does it."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class _EntryCode(JITCodeLibrary):
    """Machine code of a function with all its callees.

    Its loops become vector instructions, but are not unrolled: that took two fifths of the time of LLVM. Bodies that
    need it have been unrolled before.
    """

    def _optimize_functions(self, ll_module: Any) -> None:
        """Skip the optimisation of single functions. That of the whole follows."""
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        codegen = self._codegen
        passes, builder = codegen._module_pass_manager(loop_vectorize=False, slp_vectorize=False, opt=0, cost="cheap")
        passes.run(self._final_module, builder)
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        options.loop_vectorization = options.slp_vectorization = True
        options.loop_unrolling = options.loop_interleaving = False
        builder = llvm.create_pass_builder(codegen._tm, options)
        builder.getModulePassManager().run(self._final_module, builder)


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(NativeLowering):
    """Lowering of a function without machine code."""

    _name = "stream_osr_lowering"

    def run_pass(self, state: Any) -> bool:
        state.flags.no_compile = True
        super().run_pass(state)
        result = state["cr"]
        handle = list[object]().append  # some builtin that there is once: callers find the body by it
        state.targetctx.insert_user_function(handle, result.fndesc, [state.library])
        state["cr"] = result._replace(cfunc=handle)
        return True


class _Flags(Flags):
    """Flags that are compared fast. numba compares them thousands of times, and reads each option every time."""

    __slots__ = ("_values_before",)

    def values(self) -> dict[str, Any]:
        kept = getattr(self, "_values_before", None)
        if kept is None or kept[0] != self._values:
            kept = self._values_before = dict(self._values), super().values()
        all_values: dict[str, Any] = kept[1]
        return all_values


class _BodyCompiler(CompilerBase):
    """Compilation of a function to intermediate code."""

    unrolls = False

    def define_pipelines(self) -> list[PassManager]:
        state, make = self.state, DefaultPassBuilder
        state.library = _Body(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.unrolls = self.unrolls
        whole = PassManager("within")
        for part in (
            make.define_untyped_pipeline,
            make.define_typed_pipeline,
            make.define_nopython_lowering_pipeline,
        ):
            for step, description in part(state).passes:
                whole.add_pass(_Lowering if step is NativeLowering else step, description)
        whole.finalize()
        return [whole]

    def _compile_core(self) -> Any:
        self.state["flags"] = _Flags(self.state.flags)
        return super()._compile_core()


class _UnrollingCompiler(_BodyCompiler):
    """Compilation of a function whose loops are unrolled before it is inlined."""

    unrolls = True


def _within(**options: Any) -> Callable[[Callable[..., object]], Any]:
    """Decorate a function of numba: :func:`within` in place of numba's own decorator."""
    return lambda function: within(function, options)


def _raise_for_shapes(source: tuple[int, ...], target: tuple[int, ...]) -> None:
    """Raise an error because a slice is assigned values of another shape."""


@overload(_raise_for_shapes)
def _raise_without_shapes(source: Any, target: Any) -> Callable[[Any, Any], None]:
    """Raise it without the shapes. numba's own function adds code for texts to each kernel with such slices."""

    def raises(source: Any, target: Any) -> None:
        raise ValueError("a slice is assigned values of another shape")

    return raises


@contextmanager
def _without_reports() -> Iterator[None]:
    """Do not report calls of LLVM as events of numba."""
    own = list(_REPORTS)
    _REPORTS.clear()
    try:
        yield
    finally:
        _REPORTS.extend(own)


@contextmanager
def _economically(codegen: Any) -> Iterator[None]:
    """Replace parts of numba while it compiles a kernel.

    Functions that numba calls become intermediate code. An error in an assignment to a slice does not name the
    shapes. Garbage is not collected: numba makes many objects that live until the end, and visiting them takes an
    eighth of the time.
    """
    from numba.np import arrayobj  # slow to import

    own, collects = jit_registry.pop(CPU), gc.isenabled()
    own_raise = getattr(arrayobj, _RAISE, None)  # absent in earlier versions
    gc.disable()
    codegen._library_class, jit_registry[CPU] = _Body, _within
    setattr(arrayobj, _RAISE, _raise_for_shapes)
    try:
        with _without_reports():
            yield
    finally:
        jit_registry.pop(CPU)
        jit_registry[CPU] = own
        del codegen._library_class
        setattr(arrayobj, _RAISE, own_raise)
        if collects:
            gc.enable()


class _MachineCode(CompileResultCacheImpl):
    """Cached machine code, without the intermediate code that numba also caches for callers.

    Callers use the code from :func:`within` instead. Reading numba's intermediate code would take longer than all the
    rest.
    """

    def reduce(self, compiled: Any) -> Any:
        (name, kind, (code, _)), described, *rest = super().reduce(compiled)
        return (name, kind, (code, _declared(described))), described, *rest


def _declared(described: Any) -> bytes:
    """Intermediate code with only the names by which numba finds the functions in the machine code."""
    names = described.llvm_func_name, described.llvm_cpython_wrapper_name, described.llvm_cfunc_wrapper_name
    text = "\n".join(f'define void @"{name}"() {{ ret void }}' for name in names)
    code: bytes = llvm.parse_assembly(text).as_bitcode()
    return code


class _Index(IndexDataCacheFile):
    def _load_index(self) -> dict[Any, str]:
        try:
            index: dict[Any, str] = super()._load_index()
        except (AttributeError, ImportError):  # it names a class of earlier sources
            return {}
        return index

    def save(self, key: Any, data: Any) -> None:
        """Write the machine code before the index. Processes read both without a lock."""
        index = self._load_index()
        name = index.get(key) or self._data_name(len(index) + 1)
        self._save_data(name, data)
        self._save_index({**index, key: name})


def _has(cache: Any, sig: Any, context: Any) -> bool:
    """Return whether a cache has machine code for a signature."""
    return cache._index_key(sig, context.codegen()) in cache._cache_file._load_index()


class _Cache(FunctionCache):
    """Cache that loads machine code without numba's declarations for compilation. A compilation loads them itself."""

    _impl_class: Any = None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load the code for a signature, or return ``None``."""
        with _without_reports(), self._guard_against_spurious_io_errors():
            rtsys.initialize(target_context)
            return self._load_overload(sig, target_context)


class KernelCache(_Cache):
    """Cache of a kernel's machine code on this machine."""

    _impl_class = _MachineCode

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__(function)
        stamp = source_stamp(Path(function.__code__.co_filename))
        self._cache_file = _Index(self._cache_path, self._impl.filename_base, stamp)

    def has(self, sig: Any, context: Any) -> bool:
        """Return whether this machine has the code for a signature."""
        return _has(self, sig, context)


@cache
def _common_folder() -> str:
    """Return a folder of the cache that does not depend on the kernel, or an empty text."""
    folder = ""
    with suppress(RuntimeError):  # it cannot be written
        folder = FunctionCache(within).cache_path
    return folder


@cache
def target_here() -> Target | None:
    """Return the best target that this processor can run and for which the package has machine code, if any."""
    has = llvm.get_host_cpu_features()
    for target in TARGETS.get(platform.machine(), ()):
        if (FOLDER / target.name).is_dir() and all(has.get(name) for name in target.needs):
            return target
    return None


@cache
def why_not() -> str | None:
    """Return why the precompiled machine code cannot be used here, or ``None`` if it is used or absent.

    >>> why_not()  # a checkout brings none
    """
    if not FOLDER.is_dir():
        return None
    made_with = (FOLDER / "numba").read_text().strip()
    if made_with != numba.__version__:
        return f"the machine code in this package is for numba {made_with}, here is {numba.__version__}"
    if target_here() is None:
        there = " and ".join(sorted(path.name for path in FOLDER.iterdir() if path.is_dir()))
        has = llvm.get_host_cpu_features()
        needs = [target.needs for target in TARGETS.get(platform.machine(), ()) if (FOLDER / target.name).is_dir()]
        missing = [name for name in needs[-1] if not has.get(name)] if needs else []
        lacks = f"this one lacks {', '.join(missing)}" if missing else f"this one is {platform.machine()}"
        return f"the machine code in this package is for {there} processors, {lacks}"
    return None


class _Place(_CacheLocator):
    """Folder of a source's precompiled kernels for the target of this processor."""

    def __init__(self, source: str, line: int) -> None:
        self.source, self.line = Path(source), line

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> _Place:
        return cls(py_file, py_func.__code__.co_firstlineno)

    def get_cache_path(self) -> str:
        target = target_here()
        assert target is not None
        return str(FOLDER / target.name / self.source.parent.relative_to(FOLDER.parent))

    def get_source_stamp(self) -> str:
        return source_stamp(self.source)

    def get_disambiguator(self) -> str:
        return str(self.line)


class _Impl(CompileResultCacheImpl):
    _locator_classes = [_Place]  # noqa: RUF012  # numba's own name


class _Shipped(_Cache):
    """Precompiled machine code of a kernel that came with the package."""

    _impl_class = _Impl

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        target = target_here()
        assert target is not None
        signature, (triple, _, _), digests = super()._index_key(sig, codegen)
        return signature, (triple, target.name, ""), digests


def beside(own: Any, function: Callable[..., object]) -> Any:
    """Add the precompiled code to a kernel's cache on this machine, if it exists and can be used."""
    came = FOLDER.is_dir() and Path(function.__code__.co_filename).is_relative_to(FOLDER.parent)
    return _Beside(own, function) if came and why_not() is None else own


class _Beside:
    """A cache that tries two caches in turn."""

    def __init__(self, own: Any, function: Any) -> None:
        self._own = own
        self._shipped: Any = _Shipped(function)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def has(self, sig: Any, context: Any) -> bool:
        """Return whether one of the caches has the code for a signature."""
        return self._own.has(sig, context) or _has(self._shipped, sig, context)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load the code for a signature from the first cache that has it, or return ``None``."""
        found = self._own.load_overload(sig, target_context)
        return self._shipped.load_overload(sig, target_context) if found is None else found


class Kernel(CPUDispatcher):
    """A compiled function. Other kernels that call it inline its intermediate code."""

    _compiler: Any
    targetctx: Any

    def __init__(self, function: Callable[..., object], options: dict[str, Any], *, unrolls: bool) -> None:
        super().__init__(function, targetoptions=options)
        self._compiler._compile_core, self.unrolls = self._for_python, unrolls
        del self._cache  # numba's own, which caches nothing

    @cached_property
    def _cache(self) -> Any:
        """Machine code on this machine and in the package. A kernel that only kernels call needs none."""
        own: Any = NullCache()
        # without a folder that can be written the kernel works all the same, and is compiled anew in each process
        with suppress(RuntimeError):
            own = KernelCache(self.py_func)
        return beside(own, self.py_func)

    @cached_property
    def within(self) -> Any:
        """The function that other kernels call."""
        return within(self.py_func, self.targetoptions, unrolls=self.unrolls)

    @property
    def _numba_type_(self) -> Any:
        return self.within._numba_type_

    def _for_python(self, args: Any, return_type: Any) -> Any:
        """Compile machine code: the function that other kernels call, behind a conversion of Python arguments."""
        target, flags, codegen = self.targetdescr, Flags(), self.targetctx.codegen()
        target.options.parse_as_flags(flags, self.targetoptions)
        with _economically(codegen):
            self.within.compile(args)
            body = self.within.overloads[args]
            context, described = body.target_context, copy(body.fndesc)
            described.env_name += "_entry"  # constants of the conversion, which other entries of the body do not have
            function = described, Environment.from_fndesc(described)
            library = _EntryCode(codegen, body.library.name)
            library.enable_object_caching()
            library.add_linking_library(body.library)
            with ConfigStack().enter(flags), context.push_code_library(library):
                context.create_cpython_wrapper(library, *function, body.call_helper, release_gil=flags.release_gil)
            callable_ = context.get_executable(library, *function)
        own = {"entry_point": callable_, "library": library, "fndesc": described, "environment": function[1]}
        return body._replace(**own, type_annotation="", metadata={})

    def compile(self, sig: Any) -> Any:
        """Load or compile the machine code for a signature. One process at a time compiles a kernel.

        A process does not wait for cached machine code while another process compiles for another signature.
        """
        index = self.stats.cache_path and self._cache._cache_file._index_path
        # without a cache no process can use the machine code of another
        if not index or (is_cached := partial(self._cache.has, sig, self.targetctx))():
            return super().compile(sig)
        lock = Path(index).with_suffix(".lock")
        all_kernels = Path(_common_folder() or lock.parent, "compiling.lock")
        # two threads do not wait for the lock of their own process: numba compiles in one thread at a time
        with global_compiler_lock, one_process(lock, all_kernels, self.py_func.__name__, is_cached):
            return super().compile(sig)


def compiled(function: Callable[..., object], options: dict[str, Any], *, unrolls: bool = False) -> Any:
    """Make the dispatcher of a function, with its cached code on this machine and in the package.

    Parameters
    ----------
    function, options
        The function, and numba's options.
    unrolls
        Whether to unroll its loops wherever it is called.
    """
    return Kernel(function, options, unrolls=unrolls)


def is_to_be_cached(kernel: Any) -> bool:
    """Return whether a kernel can be cached on this machine, and is not, nor came with the package."""
    file = getattr(kernel._cache, "_cache_file", None)
    return file is not None and not FOLDER.is_dir() and not file._load_index()
