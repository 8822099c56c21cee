"""What is followed: files of a run, or the topics of a service. Each tells decisions and events, and finds old ones.

``seam`` says what a feed is; ``files`` and ``service`` are the two, ``tail`` follows one file.
"""
