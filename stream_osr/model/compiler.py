"""Compilation of kernels with private classes of numba: intermediate code for callers, machine code for Python.

numba makes every function callable from Python. It optimises the function together with all its callees and emits
machine code, once at each level of the call tree. Most kernels are called by other kernels only. Those are compiled
to intermediate code alone (:func:`within`), and so are the parts of numba's own functions. A kernel that Python calls
is optimised as a whole and has machine code.

If one of numba's private classes is missing, :mod:`stream_osr.model.jit` uses plain ``njit``.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from copy import copy
from functools import cached_property, partial
from typing import Any

import llvmlite.binding as llvm
from numba.core.caching import NullCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder, Flags
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.environment import Environment
from numba.core.registry import CPUDispatcher
from numba.core.target_extension import CPU, jit_registry
from numba.core.targetconfig import ConfigStack
from numba.core.typed_passes import NativeLowering
from numba.extending import overload

from stream_osr.compiling import one_process
from stream_osr.model.kernel_cache import KernelCache, beside, lock_of, without_reports

_RAISE = "raise_with_shape_context"


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
        with without_reports():
            yield
    finally:
        jit_registry.pop(CPU)
        jit_registry[CPU] = own
        del codegen._library_class
        setattr(arrayobj, _RAISE, own_raise)
        if collects:
            gc.enable()


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
        # two threads do not wait for the lock of their own process: numba compiles in one thread at a time
        with global_compiler_lock, one_process(lock_of(index), self.py_func.__name__, is_cached):
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
