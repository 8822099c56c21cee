"""Structure of the sources: imports lead down, there is no cycle, and no module is long."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

from tools.checks.sources import Sources

LIBRARY: tuple[tuple[str, ...], ...] = (
    ("printable_text", "compiling", "version"),
    ("errors",),
    ("support",),
    ("instances",),
    ("parameters",),
    ("config",),
    ("decision",),
    ("model",),
    ("trust",),
    ("discovery",),
    ("training",),
    ("evaluation",),
    ("stream",),
    ("archive",),
    ("frames",),
    ("recognizer",),
    ("keys",),
    ("keyed", "monitor"),
    ("stream_osr",),
    ("sklearn",),
)
CONNECTORS: tuple[tuple[str, ...], ...] = (
    ("stream_osr_connectors base console values json_fields growing_file memory terminal",),
    ("commands", "engine"),
    (
        "files",
        "kafka.log kafka.places kafka.exits kafka.stats",
    ),
    ("kafka.settings_errors", "spark", "mlflow"),
    ("kafka.settings",),
    ("kafka.backoff",),
    ("kafka.wire",),
    ("kafka.client",),
    ("kafka.command_topic", "kafka.source kafka.sink"),
    ("kafka.run",),
    ("kafka.ops", "kafka"),
    ("summary",),
    ("page page.charts page.glossary",),
    ("page.live",),
    ("page.report",),
    ("page.plot",),
    ("http_service",),
    ("mcp",),
    ("cli",),
    ("__main__",),
)
"""Layers of each package from the bottom up, those of the library below; the words of a string are one group.

A module imports modules of its own group or of a lower layer.
"""

ABOUT_THE_MODEL = {"stream_osr_connectors.summary.axes", "stream_osr_connectors.cli.warmup"}
"""Connectors that read the covariance of a model."""

LONGEST = {"stream_osr": 450, "stream_osr_connectors": 450}
"""Lines of a module of each package: a module has one idea."""
ONE_IDEA = {"stream_osr.recognizer": 1000}
"""Modules with more lines: public methods with their documentation."""
OF_NAMED_TUPLES = {"_replace", "_asdict", "_fields", "_make"}
OF_OTHERS = {"_get_params": "river", "_exit": "os", "_current_frames": "sys", "_Compress": "zlib"}
"""Names with an underscore that another package makes public, and the package."""
INTO_OTHERS = ("stream_osr_connectors.kafka.client", "stream_osr_connectors.page.live.page_host")
"""Modules that use private names of kafka-python and of uvicorn."""


def check(sources: Sources) -> Iterator[str]:
    """Find violations of the structure."""
    yield from imports_that_lead_up(sources)
    yield from cycles(sources)
    yield from imports_of_the_model(sources)
    yield from private_names_of_others(sources)
    yield from long_modules(sources)


def layers() -> dict[str, tuple[int, str]]:
    """Layer and group of each package or module that the tables name."""
    out: dict[str, tuple[int, str]] = {}
    for top, floors, lowest in (("stream_osr", LIBRARY, 0), ("stream_osr_connectors", CONNECTORS, len(LIBRARY))):
        for floor, groups in enumerate(floors, lowest):
            for group in groups:
                out |= {top if word == top else f"{top}.{word}": (floor, group) for word in group.split()}
    return out


def layer_of(name: str, known: dict[str, tuple[int, str]]) -> tuple[int, str] | None:
    """Layer and group of a module: its own, or that of a package around it that is one group as a whole."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        package = ".".join(parts[:length])
        divided = package != name and any(each.startswith(f"{package}.") for each in known)
        if package in known and not divided:
            return known[package]
    return None


def imports_that_lead_up(sources: Sources) -> Iterator[str]:
    """Find imports of a higher layer, or of another group of the same layer."""
    known = layers()
    for name, imported in sources.imports.items():
        own = layer_of(name, known)
        if own is None:
            yield f"{name} is in no layer; name it in LIBRARY or CONNECTORS of tools/checks/structure.py"
            continue
        for other in sorted(imported):
            there = layer_of(other, known)
            if there is not None and there[0] >= own[0] and there[1] != own[1]:
                yield f"{name} imports {other}, which is not in a lower layer"


def cycles(sources: Sources) -> Iterator[str]:
    """Find cycles of imports between modules, and between the packages and modules of one package."""
    graphs: dict[str, dict[str, set[str]]] = {"": {name: {*each} for name, each in sources.imports.items()}}
    for package in {name.rpartition(".")[0] for name in sources.modules if "." in name}:
        graph = graphs.setdefault(package, {})
        for name in (each for each in sources.modules if each.startswith(f"{package}.")):
            within = {other for other in sources.imports[name] if other.startswith(f"{package}.")}
            child, *others = (each.removeprefix(f"{package}.").partition(".")[0] for each in (name, *within))
            graph.setdefault(child, set()).update({*others} - {child})
    for package, graph in graphs.items():
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            yield f"a cycle of imports{f' in {package}' if package else ''}: {', '.join(error.args[1])}"


def imports_of_the_model(sources: Sources) -> Iterator[str]:
    """Find connectors that import modules of the model."""
    for name, imported in sources.imports.items():
        inside = [each for each in imported if f"{each}.".startswith("stream_osr.model.")]
        if name.startswith("stream_osr_connectors.") and inside and name not in ABOUT_THE_MODEL:
            yield f"{name} imports {inside[0]}; connectors use the recognizer"


def private_names_of_others(sources: Sources) -> Iterator[str]:
    """Find private names of other modules that connectors use."""
    for name, tree in sources.trees.items():
        if not name.startswith("stream_osr_connectors") or name.startswith(INTO_OTHERS):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.endswith("__"):
                own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
                own = own or (isinstance(node.value, ast.Call) and ast.unparse(node.value) == "super()")
                if not own and node.attr not in OF_NAMED_TUPLES | OF_OTHERS.keys():
                    yield f"{name}:{node.lineno} uses {ast.unparse(node)}"
            if isinstance(node, ast.ImportFrom):
                words = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
                private = [word for word in words if word.startswith("_") and word != "__future__"]
                yield from (f"{name}:{node.lineno} imports {word}" for word in private)


def long_modules(sources: Sources) -> Iterator[str]:
    """Find modules with too many lines."""
    for name, path in sources.modules.items():
        lines, most = len(path.read_text().splitlines()), ONE_IDEA.get(name, LONGEST[name.partition(".")[0]])
        if lines > most:
            yield f"{name} has {lines} lines, at most {most} are expected"
