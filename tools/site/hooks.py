"""What the site has that docs/ has not: pages of the root, the words of the glossary, links that leave docs/.

A link is written as GitHub follows it, relative to the file that it stands in. Here it is turned into the one that
the site follows: to a page of the site, or to the file in the repository. One that leads nowhere stays as it is, and
MkDocs says so.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from stream_osr_connectors.page.glossary import TERMS, WORDS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FROM_ROOT = {
    ROOT / "CHANGELOG.md": "changelog.md",
    ROOT / "CONTRIBUTING.md": "contributing.md",
    ROOT / "SECURITY.md": "security.md",
}
"""Pages that stand at the root of the repository, and where the site has them."""

LINK = re.compile(r"(?P<text>\[[^\[\]\s]+\.md\]|\])\((?P<path>[^()\s#:?]+)(?P<anchor>#[^()\s]*)?\)")
"""Where a Markdown link leads, if it is to a file; and its text, if that is the name of a page."""
FENCE = re.compile(r"^(?P<indent> *)(?P<mark>`{3,}).*?^(?P=indent)(?P=mark)[ ]*$", re.MULTILINE | re.DOTALL)
GLOSSARY = re.compile(r"<!-- glossary -->.*<!-- end of glossary -->", re.DOTALL)
"""The text that stands for the words of the glossary in a checkout."""
SESSION = re.compile(r"^```python$(?=\n>>> )", re.MULTILINE)


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Take in the pages of the root."""
    for source, name in FROM_ROOT.items():
        files.append(File.generated(config, name, abs_src_path=str(source)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Make the text of a page that of the site."""
    assert page.file.abs_src_path is not None
    markdown = GLOSSARY.sub(lambda _: glossary(), markdown)
    source, titles = Path(page.file.abs_src_path), dict(titled(config.nav or []))
    markdown = relink(markdown, source, page.file.src_uri, str(config.repo_url), titles)
    return SESSION.sub("```pycon", markdown)


def glossary() -> str:
    """Write the words of the project, each with an anchor.

    >>> glossary().splitlines()[0]
    '<a id="auroc"></a>**AUROC**'
    """
    return "\n\n".join(
        f'<a id="{word.lower().replace(" ", "-")}"></a>**{word}**\n:   {meaning}'
        for word, meaning in sorted({**WORDS, **TERMS}.items(), key=lambda item: item[0].lower())
    )


def titled(nav: list[Any]) -> Iterator[tuple[str, str]]:
    """Read pages and their titles from the navigation.

    >>> dict(titled([{"Home": "index.md"}, {"Guides": [{"Files": "files.md"}]}]))
    {'index.md': 'Home', 'files.md': 'Files'}
    """
    for entry in nav:
        for title, what in entry.items():
            yield from titled(what) if isinstance(what, list) else [(what, title)]


def relink(markdown: str, source: Path, page: str, repository: str, titles: Mapping[str, str]) -> str:
    """Turn links of a file into those of the page that the site has of it; those in code are none.

    Parameters
    ----------
    markdown
        Text of the file.
    source
        Where the file is.
    page
        What the site calls it: a path below docs/.
    repository
        Address of the repository.
    titles
        Of the site's pages: a link whose text is the name of a file says what the page is called.

    Examples
    --------
    >>> relink("[a](../SECURITY.md#what-is-no-goal)", DOCS / "limits.md", "limits.md", "https://host/us", {})
    '[a](security.md#what-is-no-goal)'
    >>> relink("[a](../tests/blobs.py)", DOCS / "limits.md", "limits.md", "https://host/us", {})
    '[a](https://host/us/blob/main/tests/blobs.py)'
    >>> titles = {"files.md": "Files"}
    >>> relink("[docs/files.md](docs/files.md)", ROOT / "SECURITY.md", "security.md", "https://host/us", titles)
    '[Files](files.md)'
    """

    def led(link: re.Match[str]) -> str:
        place = Path(os.path.normpath(source.parent / link["path"]))
        anchor = link["anchor"] or ""
        if place in FROM_ROOT or (place.is_relative_to(DOCS) and place.is_file()):
            there = FROM_ROOT.get(place) or place.relative_to(DOCS).as_posix()
            text = f"[{titles[there]}]" if len(link["text"]) > 1 and there in titles else link["text"]
            return f"{text}({os.path.relpath(there, os.path.dirname(page) or '.')}{anchor})"  # noqa: PTH120
        if place.is_relative_to(ROOT) and place.exists() and not place.is_relative_to(DOCS):
            kind = "tree" if place.is_dir() else "blob"
            return f"{link['text']}({repository}/{kind}/main/{place.relative_to(ROOT).as_posix()}{anchor})"
        return link[0]

    out, at = [], 0
    for fence in FENCE.finditer(markdown):
        out += [LINK.sub(led, markdown[at : fence.start()]), fence[0]]
        at = fence.end()
    return "".join([*out, LINK.sub(led, markdown[at:])])
