"""Do known classes hold, and is what the library promises of itself true: ``python -m benchmarks.trust``.

Each part is a module: `closed`, `opened`, `breadth`, `overlap`, `persistent`, `demonstration`.
"""
