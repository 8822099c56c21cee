"""Archives: saved models outlive the code, and loaded models have been checked (``docs/archives.md``)."""
