"""Protection of a recognizer against changes by two threads at a time.

A second thread gets an error before it changes anything.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import wraps
from threading import get_ident
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeVar

from stream_osr.errors import ConcurrentChange

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")

WRITERS: dict[int, int] = {}
"""Thread that changes an object, by the object's identity. ``setdefault`` of a dict is atomic."""

os.register_at_fork(after_in_child=WRITERS.clear)  # the other threads do not exist in a child


def one_writer(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Restrict a method that changes its object to one thread at a time.

    Examples
    --------
    >>> class Counter:
    ...     @one_writer
    ...     def nested(self, function):
    ...         return function()
    >>> counter, failed = Counter(), []
    >>> def second():
    ...     try:
    ...         counter.nested(int)
    ...     except ConcurrentChange as error:
    ...         failed.append(str(error)[:42])
    >>> def in_a_thread():
    ...     thread = threading.Thread(target=second)
    ...     thread.start()
    ...     thread.join()
    >>> counter.nested(in_a_thread)
    >>> failed
    ['nested: another thread (MainThread) is cha']
    >>> counter.nested(lambda: counter.nested(int))
    0
    """

    @wraps(method)
    def alone(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        mine = get_ident()
        if WRITERS.get(id(self)) == mine:  # a method within another
            return method(self, *args, **kwargs)
        if WRITERS.setdefault(id(self), mine) != mine:
            refuse(self, method.__name__)
        try:
            return method(self, *args, **kwargs)
        finally:
            WRITERS.pop(id(self), None)

    return alone


def refuse(what: Any, name: str) -> NoReturn:
    """Raise the error for a second thread.

    Raises
    ------
    ConcurrentChange
        Always.
    """
    other = WRITERS.get(id(what))
    named = next((thread.name for thread in threading.enumerate() if thread.ident == other), "one that has ended")
    raise ConcurrentChange(
        f"{name}: another thread ({named}) is changing this {type(what).__name__}, and this call changed nothing. "
        "Let one thread call the methods that change it, put a lock around them, or give each thread its own "
        "recognizer (OpenSetRecognizer.from_trained shares the trained model). Any thread may predict"
    )
