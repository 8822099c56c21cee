"""The glossary (``glossary.toml``)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType

_GLOSSARY = tomllib.loads(files("stream_osr_connectors.page").joinpath("glossary.toml").read_text(encoding="utf-8"))

WORDS: Mapping[str, str] = MappingProxyType(_GLOSSARY["words"])
"""Terms of the report, the live page and the documentation, with their meanings."""

TERMS: Mapping[str, str] = MappingProxyType(_GLOSSARY["terms"])
"""Terms that only the documentation uses, with their meanings."""
