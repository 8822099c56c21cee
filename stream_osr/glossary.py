"""The words of this project, each in a sentence or two: for the report, and for whoever else explains them."""

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
