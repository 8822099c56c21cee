"""Doors: the one module of each package through which tests reach inside."""
