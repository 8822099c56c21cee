"""Modules under the names that they had in the release before: they go on being imported, with a warning.

The release that moves a module warns, the next one (a step of the middle number) drops the earlier name.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

_ROOMS = """
stream_osr                          stream_osr.cli             demo warmup
stream_osr                          stream_osr.model           background
stream_osr                          stream_osr.trust           balance conformal odds recall references
stream_osr.engine                   stream_osr.ensemble        actions cores guard past
stream_osr.hdp                      stream_osr.model           broad cocluster dishes elementwise franchise jit
stream_osr.hdp                      stream_osr.model           known location marginal naming parting prior
stream_osr.hdp                      stream_osr.model           restaurant scatter space terms training
stream_osr.hdp                      stream_osr.model.moves     base_measure concentration likelihood seating
stream_osr.hdp                      stream_osr.model.moves     splitting sweeps
stream_osr_connectors.kafka         stream_osr_kafka           client exits figures patience setting_names settings
stream_osr_connectors.kafka         stream_osr_kafka           sink source
stream_osr_connectors.kafka         stream_osr_kafka.commands  asking label_log labelling
stream_osr_connectors.kafka         stream_osr_kafka.ops       command logs metrics monitor port slots topic_setup
stream_osr_connectors.kafka         stream_osr_kafka.ops       watchdog workers
stream_osr_connectors.kafka         stream_osr_kafka.run       closing current_model
stream_osr_connectors.kafka         stream_osr_kafka.run       job joining keeping loading loop models
stream_osr_connectors.kafka         stream_osr_kafka.run       orphans partition publishing reading recovery
stream_osr_connectors.kafka         stream_osr_kafka.run       service snapshots standing streams telling
stream_osr_connectors.kafka         stream_osr_kafka.run       topics transactions watching
stream_osr_connectors.kafka         stream_osr_kafka.wire      boundaries decoding messages publisher
stream_osr_connectors.kafka         stream_osr_kafka.wire      subclasses timestamps
stream_osr_connectors.kafka.client  stream_osr_kafka.client    admin explaining group kinds options plain
stream_osr_connectors.kafka.client  stream_osr_kafka.client    producer seam unpacking
"""
"""Where modules were, where they are, and their names, which they kept."""
_JOINED = (
    "accounting run.publishing, client.making client.options, commands commands.label_log, cutting run.partition, "
    "incarnations run.standing, leaving patience, outcome wire.messages, owned run.keeping, taking run.closing"
)
"""Modules of the service that are parts of others."""

MOVED: Final[dict[str, str]] = {
    "stream_osr.discovery.signals": "stream_osr.discovery.summaries",
    "stream_osr.discovery.summary": "stream_osr.discovery.summaries",
    "stream_osr.engine.discover": "stream_osr.ensemble.lives",
    "stream_osr.engine.followed": "stream_osr.ensemble.chain",
    "stream_osr.engine.identities": "stream_osr.ensemble.step",
    "stream_osr.engine.promises": "stream_osr.engine.watch",
    "stream_osr.engine.signals": "stream_osr.engine.watch",
    "stream_osr.engine.telling": "stream_osr.engine.announce",
    "stream_osr.engine.waiting": "stream_osr.engine.decisions",
    "stream_osr.hdp": "stream_osr.model",
    "stream_osr.hdp.blas": "stream_osr.parallel",
    "stream_osr.hdp.gaussian_diagonal": "stream_osr.model.gaussian.diagonal",
    "stream_osr.hdp.gaussian_full": "stream_osr.model.gaussian.full",
    "stream_osr.hdp.gaussian_tied": "stream_osr.model.gaussian.tied",
    "stream_osr.hdp.glance": "stream_osr.model.predictive",
    "stream_osr.hdp.regroup": "stream_osr.model.books",
    "stream_osr.hdp.stream": "stream_osr.model.step",
    "stream_osr.hdp.succession": "stream_osr.model.transfer",
    "stream_osr.persistence": "stream_osr.archive",
    "stream_osr.report.command": "stream_osr.cli.report",
    "stream_osr.report.inside": "stream_osr.report.emerged",
    "stream_osr.selection": "stream_osr.engine.selection",
    "stream_osr.service_commands": "stream_osr.cli.service",
    "stream_osr_connectors.csv_formulas": "stream_osr_connectors.csv_rows",
    "stream_osr_connectors.kafka": "stream_osr_kafka",
    "stream_osr_connectors.kafka.reconciling": "stream_osr_kafka.run.service",
    **{
        f"{was}.{name}": f"{now}.{name}"
        for was, now, *names in map(str.split, _ROOMS.split("\n")[1:-1])
        for name in names
    },
    **{
        f"stream_osr_connectors.kafka.{was}": f"stream_osr_kafka.{now}"
        for was, now in map(str.split, _JOINED.split(", "))
    },
}
"""Where each is now."""


class _Moved(MetaPathFinder, Loader):
    """Finds a module under its earlier name: it is the one under the present name, not another."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self, is_package=False) if fullname in MOVED else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        now = MOVED[spec.name]
        warnings.warn(f"{spec.name} is {now} now; import it from there", DeprecationWarning, stacklevel=2)
        module = import_module(now)
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        assert spec is not None
        module.__spec__ = spec.loader_state  # its own, which the import system has replaced


def keep_earlier_names() -> None:
    """Let modules be imported under their earlier names."""
    if not any(isinstance(finder, _Moved) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Moved())
