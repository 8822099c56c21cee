"""The models that are averaged, behind one door: a leader with ids, lives and names, and followers.

Followers give probabilities and seats. Verbs take chains and return chains; nobody above loops over them. In a batch:
``step.seat``, ``guard.ask_references``, ``guard.keep_promise``, ``step.average``, ``step.settle``, ``lives.follow``.
What is rare has rooms of its own: ``naming``, ``labels``, ``transfer``; between batches ``views``.
"""
