"""A linter of prose: ``python -m tools.prose [FILE ...] [--summary]``.

It reads all texts that a person can meet: pages in Markdown, docstrings, messages and help texts, page templates,
schemas, and the glossary. The rules are those of "Language" in ``CONTRIBUTING.md``. proselint finds the words to
avoid; the length of sentences and the form of headings are checked here.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt
from proselint.registry import CheckRegistry
from proselint.registry.checks import Check
from proselint.registry.checks.types import Existence

ROOT = Path(__file__).parent.parent

LONGEST_SENTENCE = 35
"""Words of a sentence."""

LONGEST_MEAN = 18.0
"""Mean number of words of the sentences of a page."""

LEAST_WORDS = 4
"""Words of a string of a program from which on it is a text."""

GUIDES = ("README.md", "docs/*.md", "docs/tutorials/*.md")
"""Pages with a bound on the mean length of their sentences."""

AVOIDED = {
    "a verb of speech for data": (
        r"told",
        r"(?:is|are|was|were|been|be) (?:said|asked|heard)",
        r"asked (?:of|beside|again)",
        r"(?:says|say|said) (?:nothing|no more|no less|so|which|what|whether|how|that it)",
        r"tells? (?:of|nothing)",
    ),
    "an everyday verb as jargon": (
        r"(?:is|are|was|were|been|be|gives?|gave) given back",
        r"gives? back",
        r"given back",
        r"look(?:s|ed)? into",
        r"taken? in by",
        r"comes? to something else",
    ),
    "a vague reference": (
        r"of theirs",
        r"of its",
        r"for whoever",
        r"whoever",
        r"nobody",
        r"somebody",
        r"of it(?:\b|$)",
        r"of them[.,;:)]",
        r"such (?:a|an) one",
        r"so many",
        r"so (?:much|large|small|long|often) (?:a|an)",
    ),
    "an archaic word": (r"anew", r"lest", r"thereof", r"whereof", r"hitherto", r"as ever", r"whence"),
}
"""Patterns of words to avoid, by kind."""


HEADING = re.compile(r"(?i)(?:what|where|when|whether|who|whom|whose|which|why|how)\b")
JOINED = re.compile(r";(?! otherwise\b)")
NO_ZERO = re.compile(r"(?<![\w.)\]`/%])[-\u2212+±]?\.\d")
END = re.compile(r"(?<=[.!?])[\"')]*\s+(?=[\"'(]*[A-Z0-9`])")
NO_END = re.compile(r"(?:\b(?:e\.g|i\.e|cf|vs|No|Fig|Eq|approx)\.|\b[A-Z]\.)$")
WORD = re.compile(r"[A-Za-z0-9][\w'\u2019.-]*")
CODE = "`x`"
"""What stands for a piece of code in a text."""


class Text(NamedTuple):
    """A text and its place.

    Attributes
    ----------
    path, line
        Where it begins.
    kind
        ``"heading"``, ``"paragraph"``, or ``"label"`` (a cell of a table, a name of a field).
    text
        Without markup; code is a placeholder.
    """

    path: Path
    line: int
    kind: str
    text: str


class Finding(NamedTuple):
    """A place that breaks a rule."""

    path: Path
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        """Return one line, as compilers do."""
        path = self.path.relative_to(ROOT) if self.path.is_relative_to(ROOT) else self.path
        return f"{path}:{self.line}: {self.rule}: {self.text}"


# Sources of texts.


def read_texts(path: Path) -> Iterator[Text]:
    """Yield all texts of a file."""
    source = path.read_text()
    reader = {".md": _markdown, ".py": _python, ".j2": _markup, ".js": _script, ".json": _schema, ".toml": _toml}
    yield from reader[path.suffix](path, source)


def _markdown(path: Path, source: str, line: int = 0) -> Iterator[Text]:
    """Yield headings, paragraphs, items and cells of a page; blocks of code are none."""
    kind = "paragraph"
    for token in MarkdownIt("commonmark").enable("table").parse(_dedented(source)):
        if token.type.endswith("_open"):
            kind = {"heading": "heading", "td": "label", "th": "label"}.get(token.type[:-5], kind)
            if token.type == "paragraph_open":
                kind = "paragraph"
        if token.type == "inline" and token.children is not None and token.map:
            pieces = [
                {"text": child.content, "code_inline": CODE, "softbreak": " ", "hardbreak": " "}.get(child.type, "")
                for child in token.children
            ]
            yield Text(path, line + token.map[0] + 1, kind, "".join(pieces))


def _dedented(source: str) -> str:
    """Return a page whose notes and tabs (``!!!``, ``???``, ``===``) are paragraphs, without directives (``:::``)."""
    source = re.sub(r"^:::.*(?:\n {4}.*)*", lambda found: "\n" * found[0].count("\n"), source, flags=re.MULTILINE)
    out, inside = [], False
    for each in source.split("\n"):
        if re.match(r"(?:!!!|\?\?\?\+?|===) ", each):
            inside = True
            out.append("")
        elif inside and each.strip() and not each.startswith("    "):
            inside = False
            out.append(each)
        else:
            out.append(each[4:] if inside else each)
    return "\n".join(out)


def _python(path: Path, source: str) -> Iterator[Text]:
    """Yield docstrings and the strings that are sentences."""
    tree = ast.parse(source)
    docstrings = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for child in body if isinstance(body, list) else ():
            if (
                isinstance(child, ast.Expr)
                and isinstance(child.value, ast.Constant)
                and isinstance(child.value.value, str)
            ):
                docstrings.add(child.value)
                yield from _docstring(path, child.value.lineno, child.value.value)
    inner = {part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)} - {
        node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else CODE for part in node.values]
            yield from _message(path, node.lineno, "".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docstrings | inner:
            yield from _message(path, node.lineno, node.value)


def _docstring(path: Path, line: int, text: str) -> Iterator[Text]:
    """Yield the paragraphs of a docstring."""
    paragraph: list[str] = []
    begin, indent, skipped = line, 0, False
    for number, each in enumerate([*text.split("\n"), ""]):
        content = each.strip()
        depth = len(each) - len(each.lstrip())
        if paragraph and (
            not content or (depth != indent and number > 1) or re.match(r"(?:[-=*] |-{3,}|>>>)", content)
        ):
            yield Text(
                path,
                begin,
                "paragraph" if len(paragraph) > 1 or " " in paragraph[0] else "label",
                _plain(" ".join(paragraph)),
            )
            paragraph = []
        skipped = bool(content) and (skipped or content.startswith((">>>", "...", ".. ")))
        if content and not skipped and not re.match(r"-{3,}$", content):
            if not paragraph:
                begin, indent = line + number, depth
            paragraph.append(content)


def _message(path: Path, line: int, text: str) -> Iterator[Text]:
    """Yield a string that is a text."""
    if len(re.findall(r"(?<!\S)[A-Za-z][a-z'\u2019]*[,.:;]?(?!\S)", text)) >= LEAST_WORDS:
        for paragraph in re.split(r"\n\s*\n", text):
            yield Text(path, line, "paragraph", _plain(paragraph))


def _plain(text: str) -> str:
    """Return a text without the markup of reStructuredText."""
    text = re.sub(r"(?::[\w:]+:)?``?[^`]+``?", CODE, text)
    return re.sub(r"\s+", " ", text)


class _Markup(HTMLParser):
    """Texts of a template."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[int, str]] = []
        self.silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect titles and labels."""
        self.silent += tag in {"script", "style"}
        self.found += [
            (self.getpos()[0], value)
            for name, value in attrs
            if name in {"title", "aria-label", "placeholder"} and value
        ]

    def handle_endtag(self, tag: str) -> None:
        """Leave a script."""
        self.silent -= tag in {"script", "style"}

    def handle_data(self, data: str) -> None:
        """Collect a text."""
        if not self.silent and data.strip():
            self.found.append((self.getpos()[0], data.strip()))


def _markup(path: Path, source: str) -> Iterator[Text]:
    """Yield the texts of a template."""
    parser = _Markup()
    blank = re.sub(r"\{[%#].*?[%#]\}", lambda found: "\n" * found[0].count("\n"), source, flags=re.DOTALL)
    parser.feed(re.sub(r"\{\{.*?\}\}", lambda found: CODE + "\n" * found[0].count("\n"), blank, flags=re.DOTALL))
    for line, text in parser.found:
        yield Text(path, line, "paragraph", _plain(text))


def _script(path: Path, source: str) -> Iterator[Text]:
    """Yield the strings of a script that are texts."""
    for found in re.finditer(r"\"([^\"\n]*)\"|`([^`]*)`", source):
        text = re.sub(r"\$\{[^}]*\}", CODE, found[1] or found[2] or "")
        yield from _message(path, source[: found.start()].count("\n") + 1, text)


def _schema(path: Path, source: str) -> Iterator[Text]:
    """Yield the descriptions of a schema."""
    for found in re.finditer(r'"(?:description|title)": ("(?:[^"\\\\]|\\\\.)*")', source):
        yield Text(path, source[: found.start()].count("\n") + 1, "paragraph", _plain(json.loads(found[1])))


def _toml(path: Path, source: str) -> Iterator[Text]:
    """Yield the texts of tables, however deep."""
    waiting = [tomllib.loads(source)]
    while waiting:
        for name, value in waiting.pop().items():
            if isinstance(value, dict):
                waiting.append(value)
            elif isinstance(value, str):
                at = source.find(value.split("  ")[0][:60])
                yield from _message(path, source[: max(at, source.find(f"{name} ="))].count("\n") + 1, value)


# Rules.


def sentences(text: str) -> Iterator[str]:
    """Split a text into its sentences."""
    begin = 0
    for found in END.finditer(text):
        if not NO_END.search(text[begin : found.start()]):
            yield text[begin : found.start()]
            begin = found.end()
    yield text[begin:]


def words(sentence: str) -> int:
    """Count the words of a sentence."""
    return len(WORD.findall(sentence))


def _checks() -> list[Check]:
    """Return the words to avoid as checks of proselint."""
    registry = CheckRegistry()
    if not registry.checks:
        registry.register_many(
            tuple(
                Check(check_type=Existence(items=items), path=f"stream_osr.{kind}", message=f"{kind}: {{}}")
                for kind, items in AVOIDED.items()
            )
        )
    checks: list[Check] = registry.get_all_enabled({"stream_osr": True})
    return checks


def check(text: Text) -> Iterator[Finding]:
    """Yield what breaks a rule in a text."""
    prose = re.sub(r"“[^”]*”|\"[^\"]*\"", CODE, text.text)  # quotes are not ours

    def finding(rule: str, where: str) -> Finding:
        return Finding(text.path, text.line, rule, where)

    if text.kind == "heading" and HEADING.match(prose):
        yield finding("a heading is a noun phrase", prose)
    for each in _checks():
        for result in each.check(f" {prose} "):
            at = result.span[0]
            yield finding(
                each.message.format(f" {prose} "[slice(*result.span)].strip()), prose[max(at - 30, 0) : at + 40]
            )
    for sentence in sentences(prose):
        if words(sentence) > LONGEST_SENTENCE:
            yield finding(
                f"a sentence has at most {LONGEST_SENTENCE} words, this one {words(sentence)}", sentence[:80]
            )
        if text.kind == "paragraph" and JOINED.search(sentence):
            yield finding("a semicolon joins two sentences", sentence[:80])
        if NO_ZERO.search(sentence):
            yield finding("a number has a leading zero", sentence[:80])


def mean_length(texts: list[Text]) -> float:
    """Return the mean number of words of the sentences of a page."""
    lengths = [
        words(each) for text in texts if text.kind == "paragraph" for each in sentences(text.text) if words(each) > 2
    ]
    return sum(lengths) / len(lengths) if lengths else 0.0


def sources() -> list[Path]:
    """Return the files with texts that a person can meet."""
    listed = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard"], check=True, capture_output=True, text=True
    ).stdout.split("\n")
    read = re.compile(
        r"(?:README|CHANGELOG|CONTRIBUTING|SECURITY)\.md|docs/.*\.md|(?:stream_osr|connectors)/.*\.(?:py|j2|js)"
        r"|connectors/.*/schemas/.*\.json|connectors/.*\.toml"
    )
    return [ROOT / name for name in listed if read.fullmatch(name)]


def main(arguments: list[str] | None = None) -> int:
    """Print what breaks a rule, and the length of sentences; return 1 if there is anything."""
    parser = argparse.ArgumentParser(prog="python -m tools.prose", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="files or folders (default: all with texts)")
    parser.add_argument("--summary", action="store_true", help="print the length of sentences of each guide")
    options = parser.parse_args(arguments)
    chosen = [path.resolve() for path in options.files]
    guides = {path for pattern in GUIDES for path in ROOT.glob(pattern)}
    found: list[Finding] = []
    for path in [
        each for each in sources() if not chosen or any(each.is_relative_to(root) for root in chosen)
    ] or chosen:
        texts = list(read_texts(path))
        found += [finding for text in texts for finding in check(text)]
        mean = mean_length(texts)
        if path in guides and mean > LONGEST_MEAN:
            found.append(
                Finding(path, 1, f"the mean sentence of a guide has at most {LONGEST_MEAN:g} words", f"{mean:.1f}")
            )
        if path in guides and options.summary:
            longest = max((words(each) for text in texts for each in sentences(text.text)), default=0)
            sys.stdout.write(f"{path.relative_to(ROOT)}: mean {mean:.1f}, longest {longest}\n")
    for each in found:
        sys.stdout.write(f"{each}\n")
    sys.stdout.write(f"{len(found)} findings\n" if found else "The prose keeps the rules.\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
