"""The words of this project, each in a sentence or two: for the report, and for whoever else explains them.

:data:`WORDS` are those of the pages that people look at, :data:`TERMS` the others, of the documentation.
"""

from __future__ import annotations

from types import MappingProxyType

WORDS = MappingProxyType(
    {
        "known class": "A class that the model was trained on, or that somebody has named since.",
        "unknown": "The label of an instance that is probably of no known class.",
        "subclass": (
            "A group of instances that resemble each other, written S and a number. A known class is made of one "
            "subclass or several; what is unknown gathers in new ones."
        ),
        "emerged": "A new subclass has emerged once enough unknown instances in it stand out from noise.",
        "candidate": "New subclasses that belong together: a new class, if somebody looks at it and says so.",
        "instance": "One thing to decide: a row of the table, a record of the stream.",
        "key": "The name of an instance, from the input.",
        "position": "The place of an instance in the stream, from 0.",
        "standard deviation": (
            "How far instances usually are from their mean. A distance of 3 is unusual, one of 10 is far away."
        ),
        "probability of unknown": "How probable it is that an instance is of no known class, from 0 to 1.",
        "typical": "Instances near the middle of a candidate that are surely unknown.",
        "doubtful": "Instances of a candidate that are least surely unknown, or farthest from its middle.",
        "nearest known": "Instances of known classes that come nearest to a candidate: is it really something else?",
        "recall": "Of the instances of known classes, the share that is labelled right.",
        "promised recall": "The recall that training expects in a stream like the training data.",
        "Delta": "A coarse number of new classes: new subclasses by the subclasses that a known class has.",
        "discriminant axes": "The two directions in which classes lie furthest apart.",
        "AUROC": (
            "How well the probability of unknown parts unknown instances from known ones: 1 is perfect, .5 is chance."
        ),
        "calibration error": "How far, on average, a probability is from the share that turns out to be true.",
        "merged": "Two subclasses have turned out to be one; the older number goes on.",
        "dormant": "Nothing has come in the subclass for long. It is not forgotten.",
        "mixed": "No true class makes up 60 % of the subclass: it holds several, and one name for it would mislead.",
        "muted": "Somebody has said that the subclass is of no interest: unknown, and told of no more.",
    }
)
"""Each word, and what it means."""

TERMS = MappingProxyType(
    {
        "batch": "Instances that are decided together: a micro-batch, 256 of them unless another number is given.",
        "chain": "One of the models (four) that run side by side and whose probabilities are averaged.",
        "checkpoint": "A file from which a run over files goes on as if it had not been interrupted.",
        "data quality": "Records that are not what they should be: a value is missing or no number, say.",
        "dead letter": "A record of a topic that could not be used, set aside with the reason.",
        "decision": "The final word on one instance: its label, how probable each class is, and why.",
        "density rank": (
            "How usual an instance is for a known class: the share of its training instances that are no denser."
        ),
        "drift": "Instances of a known class have changed.",
        "embedding": "Numbers that stand for a picture or a text, so that what is alike is near.",
        "event": "A fact that is told once, such as that a subclass has emerged.",
        "half-life": "The number of instances after which a seat counts half.",
        "label that comes late": "The true class of an instance, told after it was decided.",
        "micro-F": (
            "How well known classes are told from each other and from the unknown: the harmonic mean of precision "
            "and recall, counted over the decisions of all known classes together. 1 is perfect."
        ),
        "novelty": "Unknown instances that resemble each other.",
        "openness": "How much of what comes is of classes that training did not have.",
        "outlier": "An unknown instance that resembles nothing, not even other unknown ones.",
        "promoted": "Somebody has said which class an emerging subclass is: it is known from then on.",
        "recurred": "Instances come again in a subclass that was dormant. It has its old number.",
        "reference": (
            "A training instance that is kept with the model and asked again beside the stream: "
            "it guards the known classes."
        ),
        "seat": "What an instance takes at its subclass. The more seats, the likelier the next instance; seats fade.",
        "table": "Instances of a class that sit together, in the story of the Chinese restaurant franchise.",
        "window": "The latest instances, which are seated again with each batch.",
    }
)
"""The same for words of the method and of the documentation."""
