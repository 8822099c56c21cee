"""The version: this line is the one place where it stands (`pyproject.toml` and the command line read it here)."""

__version__ = "0.1.0"
