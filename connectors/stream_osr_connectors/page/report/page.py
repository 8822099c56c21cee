"""The report as one self-contained HTML file.

Vega-Lite draws the charts, through Altair. Unlike matplotlib's SVG, its charts fit any width with a constant font
size, and have tooltips. Bokeh's canvas cannot follow the colours of the page from light to dark, and plotly is five
times as large. The page contains the libraries (0.9 MB) and loads nothing. Its content security policy blocks all
other code, and Vega's expressions are interpreted, not evaluated.

All text of the data passes through :func:`page_text`: Jinja applies it to HTML, :func:`plain` to charts.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import altair as alt
import vl_convert
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from stream_osr.evaluation.calibration import reliability_curve
from stream_osr.evaluation.composition import main_class
from stream_osr.keyed import KeySummary
from stream_osr.printable_text import counted, printable
from stream_osr_connectors.page.formatting import page_text, percent, plain, subclass_name
from stream_osr_connectors.page.glossary import WORDS
from stream_osr_connectors.page.report import charts
from stream_osr_connectors.page.report.candidates import LARGEST, MOST_HIGHLIGHTS, ShownInstance
from stream_osr_connectors.page.report.content import Content

CARDS = 12
"""Most new subclasses with a chart."""
MOST_KEYS = 1000
"""Most keys in the table of keys."""
OTHERS = 100
"""Most settled subclasses in the table."""
IN_WORDS = 3
"""Most changes of the paper's Delta that the text lists. With more, a chart shows them."""
DIGITS = 7
"""Number of characters above which a number is rounded."""
CELL = 40
"""Most characters of a value."""
WHOLE = 10_000
"""Most characters of a command. In practice no command is this long."""
AXES = (("of the known classes", "known"), ("of known classes and new subclasses", "all"))


def render(content: Content) -> str:
    """Write the page."""
    specs: dict[str, Any] = {}
    for drawn, (_, name) in zip(content.planes, AXES, strict=False):
        specs[f"plane-{name}"] = charts.plane(drawn)
    if content.timeline is not None:
        specs["share"] = charts.unknown_share(content.timeline)
        specs["arrivals"] = charts.arrivals(content.timeline)
        if len(content.timeline.estimates) > IN_WORDS:
            specs["estimates"] = charts.estimates(content.timeline)
    drawn_ones = [each for candidate in content.candidates for each in candidate.subclasses if each.shifts][:CARDS]
    for subclass in drawn_ones:
        specs[f"shifts-{subclass.id}"] = charts.shifts(subclass.shifts)
    if content.judged is not None:
        judged = content.table.judged
        p, unknown = content.table.p_unknown[judged], content.table.truly_unknown[judged]
        specs["calibration"] = charts.calibration(reliability_curve(p, unknown))
        specs["spread"] = charts.spread(p, unknown)
    style, draw = _template("page.css"), _template("page.js")
    listed = [candidate for candidate in content.candidates if candidate.listed]
    page = _environment().get_template("page.html.j2")
    return page.render(
        content=content,
        specs=plain(specs),
        parts=_parts(content),
        large=LARGEST,
        first=MOST_HIGHLIGHTS,
        most_others=OTHERS,
        linked=_linked(content),
        listed=listed,
        reasoned=any(one.reasons for candidate in listed for one in candidate.listed),
        near=_near(content),
        judged_columns=() if content.judged is None else (content.judged.columns[-1], *content.judged.columns[:-1]),
        words=WORDS,
        axes=AXES,
        signs={} if content.timeline is None else charts.signs(content.timeline),
        name=subclass_name,
        style=Markup(style),
        scripts=[Markup(_libraries()), Markup(draw)],
        policy=_policy([style], [_libraries(), draw]),
        version=version("stream-osr"),
    )


def render_keys(title: str, lines: Sequence[KeySummary], command: Callable[[str], str]) -> str:
    """Write the page of the streams by key. ``command`` returns the command that writes the report of a key."""
    style = _template("page.css")
    return (
        _environment()
        .get_template("keys.html.j2")
        .render(
            title=title,
            lines=lines,
            emerged=sum(line.emerged > 0 for line in lines),
            command=command,
            most=MOST_KEYS,
            style=Markup(style),
            policy=_policy([style], []),
            version=version("stream-osr"),
        )
    )


def _parts(content: Content) -> dict[str, str]:
    """Return the headings of the page's sections by their ids, in order. Candidates have an empty heading."""
    recall = content.recall
    there = {
        "candidates": ("New candidates", content.candidates or content.others),
        "when": ("Timeline", content.timeline),
        "held": ("Accuracy on known classes", recall.promised is not None or recall.drops or recall.refuted),
        "where": ("Feature map", content.planes),
        "parts": ("Subclasses", content.groups),
        "right": ("Accuracy", content.judged),
        "instances": ("Instances", any(candidate.listed for candidate in content.candidates)),
        "others": ("Other events", content.section.others),
        "left-out": ("Skipped input", content.notes),
        "words": ("Glossary", True),
    }
    headings = {name: heading for name, (heading, given) in there.items() if given}
    return headings | {f"candidate-{candidate.number}": "" for candidate in content.candidates}


def _linked(content: Content) -> set[int]:
    """Return the subclasses that links can point to."""
    some = [each for candidate in content.candidates[:LARGEST] for each in candidate.subclasses]
    some += [each for candidate in content.candidates[LARGEST:] for each in candidate.subclasses[:6]]
    return {each.id for each in (*some, *content.others[:OTHERS])}


def _near(content: Content) -> list[tuple[ShownInstance, list[int]]]:
    """Return the known instances among the examples, in stream order, with the numbers of their candidates."""
    found: dict[int, tuple[ShownInstance, list[int]]] = {}
    for candidate in content.candidates[:LARGEST]:
        for one in () if candidate.examples is None else candidate.examples.known:
            found.setdefault(one.seq, (one, []))[1].append(candidate.number)
    return [found[seq] for seq in sorted(found)]


def _probability(p: float) -> str:
    """Format a probability. The result is never 0 or 1.

    >>> _probability(0.99996), _probability(0.25), _probability(1e-9)
    ('>0.999', '0.250', '<0.001')
    """
    return ">0.999" if p > 0.999 else "<0.001" if p < 0.001 else f"{p:.3f}"


def _value(value: Any) -> str:
    """Format the value of a feature.

    >>> _value(None), _value(1234567.8), _value("1.50"), _value("119.55556000000001"), _value("tcp")
    ('–', '1.2346e+06', '1.50', '119.56', 'tcp')
    """
    if value is None or value != value:
        return "\N{EN DASH}"
    text = f"{value:.5g}" if isinstance(value, float) else str(value)
    if len(text) > DIGITS and "." in text:
        with suppress(ValueError):
            text = f"{float(text):.5g}"
    return str(page_text(text if len(text) <= CELL else f"{text[:CELL]}…"))


def _policy(styles: Sequence[str], scripts: Sequence[str]) -> Markup:
    """Return a content security policy that allows only these styles and scripts, by their hashes."""

    def hashes(texts: Sequence[str]) -> str:
        digests = [hashlib.sha256(text.encode()).digest() for text in texts]
        return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests) or "'none'"

    return Markup(
        f"default-src 'none'; style-src {hashes(styles)}; script-src {hashes(scripts)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _template(name: str) -> str:
    return files("stream_osr_connectors.page.report").joinpath("templates", name).read_text(encoding="utf-8")


@cache
def _libraries() -> str:
    """Return Vega, Vega-Lite and vega-embed in the version that Altair targets."""
    major, minor, *_ = alt.SCHEMA_VERSION.removeprefix("v").split(".")
    return str(vl_convert.javascript_bundle("Object.assign(window, {vegaEmbed})", vl_version=f"{major}.{minor}"))


def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("stream_osr_connectors.page.report", "templates"),
        autoescape=True,
        finalize=page_text,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["percent"] = percent
    made.filters["count"] = lambda number: f"{number:,}"
    made.filters["counted"] = partial(counted, form=",")
    made.filters["short"] = lambda text: printable(text, CELL)
    made.filters["slug"] = lambda word: word.replace(" ", "-")
    made.filters["command"] = lambda text: Markup(escape(printable(text, WHOLE)))
    made.filters["probability"] = _probability
    made.filters["value"] = _value
    made.filters["main_class"] = main_class
    made.filters["figure"] = lambda value: "n/a" if value != value else f"{value:.3f}"
    return made
