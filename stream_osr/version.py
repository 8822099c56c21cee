"""Version of the package. `pyproject.toml` and the command line read it here."""

__version__ = "0.2.0"
