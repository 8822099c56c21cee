"""Service over HTTP: a journal of accepted instances, and a run over the journal (extra ``http``).

``instances`` reads requests and predicts. ``acceptor`` writes accepted instances to the ``journal``. ``folder_run``
decides them as `stream-osr run` does, and ``outputs`` reads its results. ``routes`` declares and answers
requests, ``messages`` has the types of bodies, ``openapi`` describes them, and ``service`` starts and stops all
parts. Only the command line uses this package.
"""
