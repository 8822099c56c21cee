"""Scripts that look at the library from outside: its outputs, its size, the way of a batch. Not installed."""
