"""The house: imports lead downwards, the service leaves the model alone, and no module is long."""

from __future__ import annotations

import ast
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]

LIBRARY: tuple[tuple[str, ...], ...] = (
    (
        "errors printable_text limits config decision embedding entries features kinds missing reading "
        "times_and_keys labels atomic memory parallel version compiling one_writer state_store",
    ),
    ("model",),
    ("trust",),
    ("discovery",),
    ("coordinates members absent dependent trained training_set training_report schema_check",),
    ("evaluation",),
    ("stream",),
    ("archive",),
    ("frames recognizer",),
    ("keyed", "monitor"),
    ("stream_osr",),
    ("sklearn",),
)
CONNECTORS: tuple[tuple[str, ...], ...] = (
    ("stream_osr_connectors base console values json_fields memory terminal",),
    ("commands",),
    (
        "files",
        "kafka.log kafka.places kafka.exits kafka.stats",
    ),
    ("kafka.settings", "spark", "mlflow"),
    ("kafka.backoff",),
    ("kafka.wire",),
    ("kafka.client",),
    ("kafka.command_topic", "kafka.source kafka.sink"),
    ("kafka.run",),
    ("kafka.ops", "kafka"),
    ("page page.formatting page.glossary page.input_records",),
    ("page.report",),
    ("page.plot",),
    ("page.live",),
    ("http_service",),
    ("mcp",),
    ("cli",),
    ("__main__",),
)
"""Rooms of each package from the bottom up, those of the library below; words that stand together are one room.

A module imports what is in its own room or on a lower floor.
"""

ABOUT_THE_MODEL = {"stream_osr_connectors.page.report.axes", "stream_osr_connectors.cli.warmup"}
"""Connectors that have to know which covariance a model has, and nothing else of it."""

LONGEST = 640
"""Lines of a module: one idea, such as the number of new classes, has one module."""
ONE_IDEA = {"stream_osr.recognizer": 1300, "stream_osr.stream.reference_check": 700}
"""Modules that need more: the public methods stand with their meaning and examples."""
OF_NAMED_TUPLES = {"_replace", "_asdict", "_fields", "_make"}
OF_OTHERS = {"_get_params": "river", "_exit": "os", "_current_frames": "sys", "_Compress": "zlib"}
"""Names that look private, and whose they are; the folder of the Kafka client reaches into kafka-python
besides, and `hosting` of the live page into uvicorn."""


@cache
def modules() -> dict[str, Path]:
    """Every module by its name."""
    found = {}
    for top in (ROOT / "stream_osr", *sorted((ROOT / "connectors").iterdir())):
        for path in top.rglob("*.py"):
            name = ".".join(path.relative_to(top.parent).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = path
    assert len(found) > 200
    return found


@cache
def tree(name: str) -> ast.Module:
    return ast.parse(modules()[name].read_text())


@cache
def imported(name: str) -> frozenset[str]:
    """Modules of the house that a module imports, wherever in it."""
    path, out = modules()[name], set()
    inside = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.Import):
            out |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = inside[: len(inside) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            out |= {f"{base}.{alias.name}" if f"{base}.{alias.name}" in modules() else base for alias in node.names}
    return frozenset(out & modules().keys() - {name})


def rooms() -> dict[str, tuple[int, str]]:
    """Floor and room of each package or module that the tables name."""
    out = {}
    for top, floors, lowest in (("stream_osr", LIBRARY, 0), ("stream_osr_connectors", CONNECTORS, len(LIBRARY))):
        for floor, names in enumerate(floors, lowest):
            for room in names:
                out |= {top if word == top else f"{top}.{word}": (floor, room) for word in room.split()}
    return out


def home(name: str) -> tuple[int, str]:
    """Floor and room of a module: its own, or that of a package around it that is one room as a whole."""
    known, parts = rooms(), name.split(".")
    for length in range(len(parts), 0, -1):
        package = ".".join(parts[:length])
        divided = package != name and any(each.startswith(f"{package}.") for each in known)
        if package in known and not divided:
            return known[package]
    raise AssertionError(f"{name} stands in no room: name it in LIBRARY or CONNECTORS")


def test_imports_lead_down() -> None:
    up = [
        f"{name} imports {other}"
        for name in modules()
        for other in sorted(imported(name))
        if home(other)[0] >= home(name)[0] and home(other)[1] != home(name)[1]
    ]
    assert not up


def test_imports_make_no_circle() -> None:
    TopologicalSorter({name: imported(name) for name in modules()}).prepare()


def test_packages_make_no_circle() -> None:
    """Neither those beside each other nor a module and a package beside it."""
    for package in {name.rpartition(".")[0] for name in modules() if "." in name}:
        graph: dict[str, set[str]] = {}
        for name in (each for each in modules() if each.startswith(f"{package}.")):
            within = {other for other in imported(name) if other.startswith(f"{package}.")}
            child, *others = (each.removeprefix(f"{package}.").partition(".")[0] for each in (name, *within))
            graph.setdefault(child, set()).update({*others} - {child})
        TopologicalSorter(graph).prepare()


def test_the_connectors_leave_the_model_alone() -> None:
    ours = [name for name in modules() if name.startswith("stream_osr_connectors.")]
    assert {name for name in ours if any(f"{each}.".startswith("stream_osr.model.") for each in imported(name))} <= (
        ABOUT_THE_MODEL
    )


def private(name: str) -> list[str]:
    """Private names of others that a module reaches for."""
    out = []
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.endswith("__"):
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            own = own or (isinstance(node.value, ast.Call) and ast.unparse(node.value) == "super()")
            if not own and node.attr not in OF_NAMED_TUPLES | OF_OTHERS.keys():
                out.append(f"{name}:{node.lineno} {ast.unparse(node)}")
        if isinstance(node, ast.ImportFrom):
            words = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            out += [f"{name}:{node.lineno} {word}" for word in words if word.startswith("_") and word != "__future__"]
    return out


def test_connectors_reach_for_nothing_private() -> None:
    into_others = ("stream_osr_connectors.kafka.client", "stream_osr_connectors.page.live.page_host")
    ours = {name: private(name) for name in modules() if name.startswith("stream_osr_connectors")}
    assert not [told for name in ours if not name.startswith(into_others) for told in ours[name]]
    assert any(ours.values()), "what is private is found where it may be"


def test_no_module_is_long() -> None:
    lines = {name: len(path.read_text().splitlines()) for name, path in modules().items()}
    assert {name: count for name, count in lines.items() if count > ONE_IDEA.get(name, LONGEST)} == {}
