"""Module names of the first layout, which some scripts of cases have: they lead to the modules of today."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, spec_from_file_location, spec_from_loader
from types import ModuleType

BEFORE, NOW = "stream_osr_kafka", "stream_osr_connectors.kafka"


class Same(Loader):
    """Loads a module under another name, as the same module."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return import_module(NOW + spec.name.removeprefix(BEFORE))

    def exec_module(self, module: ModuleType) -> None:
        pass


class FirstLayout(MetaPathFinder):
    """Finds ``stream_osr_kafka`` with its modules, and the command line as ``stream_osr.cli``."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == "stream_osr.cli":
            now = find_spec("stream_osr_connectors.__main__")
            return spec_from_file_location(name, now.origin) if now and now.origin else None
        if name.partition(".")[0] == BEFORE:
            return spec_from_loader(name, Same(), is_package=True)
        return None


sys.meta_path.insert(0, FirstLayout())
