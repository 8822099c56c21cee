"""How well what is new is found: one setting a module, each with ``measure`` and ``table``.

A setting's ``measure(seeds)`` yields figures, one dict of plain values for each run; its ``table(figures)`` is
what is printed of them. A new one is a module here and a line in ``__main__.SETTINGS``.
"""
