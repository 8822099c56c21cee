"""Do known classes hold, and is what the library promises of itself true: ``python -m benchmarks.trust``.

`closed`, `opened`, `overlap` and `persistent` have the parts.
"""
