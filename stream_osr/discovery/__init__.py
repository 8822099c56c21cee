"""Discovery of new classes: the life of subclasses, their events, and the estimated number of new classes."""
