"""Training: from labelled instances to a :class:`~stream_osr.training.trained.TrainedModel` and its report.

Modules here choose training instances, coordinates and subclasses. What follows the end of training is in
:mod:`stream_osr.stream`.
"""
