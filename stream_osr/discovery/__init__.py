"""What is emerging: the life of subclasses, events about it, and how many new classes it may be."""
