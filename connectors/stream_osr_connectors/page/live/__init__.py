"""A page that lives: what a running stream holds, and what people say of it (extra ``live``).

``feeds`` (with ``file_tail`` and ``input_rows``) and ``service_feed`` read, ``state`` folds what is read into
``class_summary`` of bounded size, ``view_model`` puts that into the form of the page, ``watcher`` does both in a
thread of its own, ``server`` answers browsers, ``access`` says who may, and ``file_commands`` and ``service_acts``
hand on what they ask. Used by the command line only; reads through the connectors.
"""
