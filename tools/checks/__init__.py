"""Checks of structure and style, which ``make lint`` runs: ``python -m tools.checks``."""
