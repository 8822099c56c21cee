"""The words of this project (``glossary.toml``): for the report, and for whoever else explains them.

:data:`WORDS` are those of the pages that people look at, :data:`TERMS` the others, of the documentation.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType

_GLOSSARY = tomllib.loads(files("stream_osr_connectors.page").joinpath("glossary.toml").read_text(encoding="utf-8"))

WORDS: Mapping[str, str] = MappingProxyType(_GLOSSARY["words"])
"""Each word, and what it means."""

TERMS: Mapping[str, str] = MappingProxyType(_GLOSSARY["terms"])
"""The same for words of the method and of the documentation."""
