"""One subclass: a Gaussian."""
