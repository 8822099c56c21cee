"""Functions of the user's own that settings name as ``module:function``."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Literal

from stream_osr.errors import ConnectorError

from ..settings import ServiceSettings


def function_of(
    settings: ServiceSettings, setting: Literal["decoder", "encoder"]
) -> Callable[[ServiceSettings], Any]:
    """Import the function that a setting names.

    Parameters
    ----------
    settings
        What the operator has set.
    setting
        Name of the setting, and of what the function returns.

    Raises
    ------
    ConnectorError
        If there is no such function.
    """
    named: str = getattr(settings, setting)
    module, _, name = named.partition(":")
    try:
        function: Callable[[ServiceSettings], Any] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConnectorError(
            f"{setting} {named!r} cannot be loaded ({error}); give json, or module:function of a function "
            f"that takes the settings and returns {'an' if setting == 'encoder' else 'a'} {setting}"
        ) from None
    return function
