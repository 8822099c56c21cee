"""Slow, obvious twins of the library's kernels, written from textbook formulas, sharing no code with it."""
