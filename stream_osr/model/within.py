"""How a kernel is compiled that other kernels call: to intermediate code alone, once.

numba makes every function ready to be called from Python: it optimises it together with all that it calls and emits
machine code, at each level of the tree again. Most kernels are called by other kernels only: those are handed to
their callers as they were translated. What Python calls is optimised as a whole, and has machine code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.registry import CPUDispatcher
from numba.core.typed_passes import NativeLowering


def within(function: Callable[..., object], options: dict[str, Any]) -> Any:
    """Make the dispatcher of a function for the kernels that call it; Python cannot."""
    only = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return CPUDispatcher(function, targetoptions={**options, **only}, pipeline_class=_Compiler)


class _Body(JITCodeLibrary):
    """Intermediate code to be linked into that of callers."""

    def _optimize_final_module(self) -> None:
        """Leave it to whoever has machine code made."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(NativeLowering):
    """Translate a function without making machine code of it."""

    _name = "stream_osr_lowering"

    def run_pass(self, state: Any) -> bool:
        state.flags.no_compile = True
        super().run_pass(state)
        result = state["cr"]
        handle = list[
            object
        ]().append  # some builtin that there is once: by it callers find the body, and nobody calls it
        state.targetctx.insert_user_function(handle, result.fndesc, [state.library])
        state["cr"] = result._replace(cfunc=handle)
        return True


class _Compiler(CompilerBase):
    def define_pipelines(self) -> list[PassManager]:
        state, make = self.state, DefaultPassBuilder
        state.library = _Body(state.targetctx.codegen(), state.func_id.func_qualname)
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
