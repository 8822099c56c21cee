"""The live page of a stream, with commands of people (extra ``live``).

``feeds`` (with ``input_rows``) and ``service_feed`` read the stream. ``state`` summarises it in
``class_summary``, which has a bounded size. ``view_model`` converts the summary for the page, and ``watcher`` runs
these steps in a separate thread. ``server`` answers browsers, and ``access`` checks permissions. ``file_commands``
and ``service_acts`` forward commands. Only the command line uses this package. It reads through the connectors.
"""
