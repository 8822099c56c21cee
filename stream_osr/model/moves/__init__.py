"""Moves of a sweep: seating, splits and merges, predictive cache, concentrations and base measure."""
