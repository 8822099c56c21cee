"""A page that lives: what a running stream holds, and what people say of it (extra ``live``).

``feeds`` reads, ``state`` folds what is read into a summary of bounded size, ``shown`` puts that into the form of the
page, ``watcher`` does both in a thread of its own, ``server`` answers browsers, ``guarding`` says who may, and
``acts`` hands on what they ask. Used by the command line only; reads through the connectors.
"""
