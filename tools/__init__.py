"""Scripts that look at the library from outside: its outputs and its size. Not installed."""
