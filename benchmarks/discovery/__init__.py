"""How well what is new is found: one setting a module.

``measure(dataset, seed)`` yields figures, one dict of plain values for each run. ``table(runs)`` lays them out. A new
setting is a module here and a name in ``__main__.SETTINGS``.
"""
