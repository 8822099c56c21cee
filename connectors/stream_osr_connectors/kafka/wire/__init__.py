"""Wire format: bytes in and out, and their meaning."""
