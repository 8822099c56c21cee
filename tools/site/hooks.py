"""What the site has that docs/ has not: pages of the root, the words of the glossary, links that leave docs/.

A link is written as GitHub follows it, relative to the file that it stands in. Here it is turned into the one that
the site follows: to a page of the site, or to the file in the repository. One that leads nowhere stays as it is, and
MkDocs says so.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from stream_osr.glossary import WORDS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FROM_ROOT = {
    ROOT / "CHANGELOG.md": "changelog.md",
    ROOT / "CONTRIBUTING.md": "contributing.md",
    ROOT / "SECURITY.md": "security.md",
}
"""Pages that stand at the root of the repository, and where the site has them."""

LINK = re.compile(r"(?<=\]\()(?P<path>[^()\s#:?]+)(?P<anchor>#[^()\s]*)?(?=\))")
"""Where a Markdown link leads, if it is to a file."""
FENCE = re.compile(r"^(?P<indent> *)(?P<mark>`{3,}).*?^(?P=indent)(?P=mark)[ ]*$", re.MULTILINE | re.DOTALL)
SESSION = re.compile(r"^```python$(?=\n>>> )", re.MULTILINE)


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Take in the pages of the root."""
    for source, name in FROM_ROOT.items():
        files.append(File.generated(config, name, abs_src_path=str(source)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Make the text of a page that of the site."""
    assert page.file.abs_src_path is not None
    markdown = markdown.replace("<!-- glossary -->", glossary())
    markdown = relink(markdown, Path(page.file.abs_src_path), page.file.src_uri, str(config.repo_url))
    return SESSION.sub("```pycon", markdown)


def glossary() -> str:
    """Write the words of the project, each with an anchor.

    >>> glossary().splitlines()[0]
    '<a id="auroc"></a>**AUROC**'
    """
    return "\n\n".join(
        f'<a id="{word.lower().replace(" ", "-")}"></a>**{word}**\n:   {meaning}'
        for word, meaning in sorted(WORDS.items(), key=lambda item: item[0].lower())
    )


def relink(markdown: str, source: Path, page: str, repository: str) -> str:
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

    Examples
    --------
    >>> relink("[a](../SECURITY.md#what-is-no-goal)", DOCS / "limits.md", "limits.md", "https://host/us")
    '[a](security.md#what-is-no-goal)'
    >>> relink("[a](../tests/blobs.py)", DOCS / "limits.md", "limits.md", "https://host/us")
    '[a](https://host/us/blob/main/tests/blobs.py)'
    >>> relink("[a](docs/files.md)", ROOT / "SECURITY.md", "security.md", "https://host/us")
    '[a](files.md)'
    """

    def led(link: re.Match[str]) -> str:
        place = Path(os.path.normpath(source.parent / link["path"]))
        anchor = link["anchor"] or ""
        if place in FROM_ROOT or (place.is_relative_to(DOCS) and place.is_file()):
            there = FROM_ROOT.get(place) or place.relative_to(DOCS).as_posix()
            return os.path.relpath(there, os.path.dirname(page) or ".") + anchor  # noqa: PTH120
        if place.is_relative_to(ROOT) and place.exists() and not place.is_relative_to(DOCS):
            kind = "tree" if place.is_dir() else "blob"
            return f"{repository}/{kind}/main/{place.relative_to(ROOT).as_posix()}{anchor}"
        return link[0]

    out, at = [], 0
    for fence in FENCE.finditer(markdown):
        out += [LINK.sub(led, markdown[at : fence.start()]), fence[0]]
        at = fence.end()
    return "".join([*out, LINK.sub(led, markdown[at:])])
