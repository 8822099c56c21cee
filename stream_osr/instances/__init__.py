"""Instances: from a caller's record, row or data frame to numbers, and back to the caller's values.

Modules here read features, labels, times and keys, and know nothing of a model or of a stream.
"""
