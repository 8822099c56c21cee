"""One subclass: a Gaussian with a full, a diagonal or a tied covariance."""
