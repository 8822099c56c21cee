"""The house: imports lead downwards, the service leaves the model alone, and no module is long."""

from __future__ import annotations

import ast
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]

FLOORS: tuple[tuple[str, ...], ...] = (
    (
        "errors showing limits config decision entries features kinds missing reading stamps labels atomic memory "
        "parallel terminal glossary version compiling one_writer",
    ),
    ("model",),
    ("trust",),
    ("discovery",),
    ("coordinates members absent dependent trained training_set training_report unlike",),
    ("evaluation",),
    ("ensemble",),
    ("engine",),
    ("archive",),
    ("frames results recognizer saved",),
    ("stream_osr",),
    ("sklearn",),
    ("stream_osr_connectors",),
    ("report", "stream_osr_kafka.log places exits figures findings class_names setting_names"),
    ("stream_osr_kafka.settings",),
    ("stream_osr_kafka.patience",),
    ("stream_osr_kafka.wire",),
    ("stream_osr_kafka.client",),
    ("stream_osr_kafka.commands", "stream_osr_kafka.source sink"),
    ("stream_osr_kafka.run",),
    ("stream_osr_kafka.ops", "stream_osr_kafka"),
    ("plot",),
    ("live",),
    ("cli",),
    ("__main__",),
)
"""Rooms from the bottom up; a word is a package or a module, and words that stand together are one room.

A module imports what is in its own room or on a lower floor.
"""

NO_MODEL = ("stream_osr_kafka", "stream_osr_connectors", "stream_osr.report", "stream_osr.live", "stream_osr.cli")
"""Who knows nothing of the model."""

ABOUT_THE_MODEL = {"stream_osr.report.axes", "stream_osr.cli.warmup"}
"""Modules of these that have to know which covariance a model has, and nothing else of it."""

LONGEST = 640
"""Lines of a module: what is one idea, as the edits of a stream or the number of new classes, stands in one place."""
OF_NAMED_TUPLES = {"_replace", "_asdict", "_fields", "_make"}
OF_OTHERS = {"_get_params": "river", "_exit": "os", "_current_frames": "sys", "_Compress": "zlib"}
"""Names that look private, and whose they are; the folder of the Kafka client reaches into kafka-python besides."""


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
    """Floor and room of each package or module that :data:`FLOORS` names."""
    out = {}
    for floor, names in enumerate(FLOORS):
        for room in names:
            top = "stream_osr_kafka." if room.startswith("stream_osr_kafka.") else "stream_osr."
            for word in room.split():
                whole = word if word.startswith("stream_osr") else top + word
                out[whole] = floor, room
    return out


def home(name: str) -> tuple[int, str]:
    """Floor and room of a module."""
    known, parts = rooms(), name.split(".")
    within = known.get(".".join(parts[:2])) or (known.get(parts[0]) if parts[0] == "stream_osr_connectors" else None)
    found = known.get(name) or within
    assert found is not None, f"{name} stands in no room: name it in FLOORS"
    return found


def test_imports_lead_down() -> None:
    up = [
        f"{name} imports {other}"
        for name in modules()
        for other in sorted(imported(name))
        if home(other)[0] >= home(name)[0] and home(other)[1] != home(name)[1]
    ]
    assert not up


def test_imports_make_no_circle() -> None:
    order = list(TopologicalSorter({name: imported(name) for name in modules()}).static_order())
    assert order.index("stream_osr.errors") < order.index("stream_osr.engine.batch") < order.index("stream_osr.cli")


def test_the_service_and_what_shows_leave_the_model_alone() -> None:
    reach = {
        name
        for name in modules()
        if f"{name}.".startswith(tuple(f"{each}." for each in NO_MODEL))
        and any(f"{other}.".startswith("stream_osr.model.") for other in imported(name))
    }
    assert reach <= ABOUT_THE_MODEL


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
    ours = [name for name in modules() if name.startswith(("stream_osr_kafka", "stream_osr_connectors"))]
    assert not [told for name in ours if not name.startswith("stream_osr_kafka.client") for told in private(name)]
    assert any(private(name) for name in ours), "what is private is found where it may be"


def test_no_module_is_long() -> None:
    lines = {name: len(path.read_text().splitlines()) for name, path in modules().items()}
    assert {name: count for name, count in lines.items() if count > LONGEST} == {}
