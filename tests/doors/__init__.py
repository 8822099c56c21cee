"""Doors: one module a package through which tests reach inside it."""
