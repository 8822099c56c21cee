"""Report of training, for a person to act on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np

from stream_osr.instances.kinds import Name, TypedColumns
from stream_osr.instances.reading import MISSING_NUMBERS, comma_text
from stream_osr.model.feature_space.binary_features import BinaryFeatures, each_flag
from stream_osr.model.feature_space.subspace import Plan
from stream_osr.model.known import Known
from stream_osr.model.modes import separate_groups
from stream_osr.parameters import Label
from stream_osr.printable_text import brief, counted, listed
from stream_osr.support import rules
from stream_osr.trust.recall import ENOUGH, RecallByGroup, instances_that_would_do

MOSTLY = 0.5
"""Share of missing numeric values above which the training report mentions zeros."""
MOST_CLASSES, MOST_SHARES = 12, 4
"""Number of classes that the text of the training report lists."""


@dataclass(frozen=True)
class TrainingReport:
    """Report of training, with advice on how to improve it.

    Attributes
    ----------
    instances
        Number of training instances of each class.
    subclasses
        Number of subclasses of each class, in the leading chain, which provides the ids.
    known_recall
        Expected recall: the share of known instances that get their own label in a stream. Each training instance is
        judged by densities without it, averaged over all models, at the class shares of the training set.
    recall_interval
        95 % interval of the expected recall, given the number of instances. ``None``: not known.
    references
        Number of reference instances, which monitor the known classes during the stream. 0: the reference check is
        off.
    small_classes
        Classes with fewer instances than whitened dimensions. Their covariance depends on the prior.
    constant_features
        Features that did not vary. They are monitored and not modelled: a change raises `ColumnFailed`, and does not
        affect decisions.
    missing_values
        Number of missing values in the training rows, which were completed class by class (`imputation.py`). If
        covariances are not full, the feature's mean replaces them.
    missing_numeric
        Share of missing values among those of numeric features.
    absent_zero
        Features that are zero in an instance that does not name them, as in sparse vectors.
    variance_left_out
        Share of the variance outside the PCA. Novelty only in that part cannot be detected.
    dimensions
        Number of coordinates of the model.
    directions
        Number of directions in which the training instances differ. The model leaves out those beyond
        ``dimensions``.
    usual_features
        Features that nearly always have the same value. One coordinate sums up their unusual values.
    repeated_features
        Features with the same information as another one, which are left out.
    told_apart
        Reason for the number of dimensions: two mean areas under the ROC curve. They show how well the known classes,
        each left out in turn, are separated from the others. The first is for the kept directions, the second for
        all. ``None``: no direction was left out for that.
    two_valued_features
        Numeric features with two values, which are categories.
    one_hot_features
        Groups of numeric features of which each instance sets one. Each group is one category.
    clock_features
        Features that rise or fall with the order of arrival in every class, such as a date or a counter. They are
        left out.
    bent_features
        Skewed features that are transformed by a power or a logarithm.
    correlation
        Mean correlation of neighbouring instances of a class. ``None``: they are independent, or the order carries no
        information.
    recall_among_neighbours
        Expected recall among neighbours, if neighbours are dependent. ``known_recall`` leaves out the block of
        arrival that contains the instance.
    mislabelled
        Number of training instances that look mislabelled. They are no references, and the expected recall does not
        count them.
    numeric_features
        Names of numeric features.
    categories
        Names of categories, with the number of their values in the model.
    left_out
        Features that are left out because of their kind, with the reason.
    missing_share
        Share of missing values, for features that have some.
    remarks
        Further remarks on how the values were read.
    subclass_shares
        Share of each subclass in its class, largest first, in the leading chain.
    separate_groups
        Classes with separate modes: the share of each group of subclasses that lies apart from the others
        (:func:`stream_osr.model.modes.separate_groups`).
    by_group
        Expected recall by the groups of the instances (persons, devices, days). ``known_recall`` is then that for a
        new group, and ``recall_interval`` is computed over groups. ``None``: the instances have no groups.
    """

    instances: dict[Label, rules.Count]
    subclasses: dict[Label, rules.Count]
    known_recall: rules.NonNegative
    small_classes: tuple[Label, ...] = ()
    constant_features: tuple[Name, ...] = ()
    missing_values: rules.Count = 0
    variance_left_out: rules.Share = 0.0
    recall_interval: tuple[rules.NonNegative, rules.NonNegative] | None = None
    references: rules.Count = 0
    dimensions: rules.Count = 0
    directions: rules.Count = 0
    usual_features: tuple[Name, ...] = ()
    repeated_features: tuple[Name, ...] = ()
    told_apart: tuple[rules.Share, rules.Share] | None = None
    two_valued_features: tuple[Name, ...] = ()
    one_hot_features: tuple[tuple[Name, ...], ...] = ()
    bent_features: tuple[Name, ...] = ()
    clock_features: tuple[Name, ...] = ()
    mislabelled: rules.Count = 0
    correlation: Annotated[float, rules.number(-10.0, 10.0)] | None = None
    recall_among_neighbours: rules.Share | None = None
    absent_zero: tuple[Name, ...] = ()
    missing_numeric: rules.Share = 0.0
    numeric_features: tuple[Name, ...] = ()
    categories: dict[Name, rules.Count] = field(default_factory=dict)
    left_out: dict[Name, str] = field(default_factory=dict)
    missing_share: dict[Name, rules.Share] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    subclass_shares: dict[Label, tuple[rules.Share, ...]] = field(default_factory=dict)
    separate_groups: dict[Label, tuple[rules.Share, ...]] = field(default_factory=dict)
    by_group: RecallByGroup | None = None

    def __str__(self) -> str:
        return "\n".join([*self._expectation(), *self._preparation(), *self._classes(), *self._understood()])

    def _expectation(self) -> list[str]:
        """Return the lines on the expected recall, and on the references that monitor it."""
        low, high = self.recall_interval or (self.known_recall, self.known_recall)
        wide = high - low > 2.0 * ENOUGH
        interval = f" ({low:.3f} to {high:.3f})" if self.recall_interval else ""
        lines = [
            f"trained on {counted(sum(self.instances.values()), 'instance')} of "
            f"{counted(len(self.instances), 'class', 'classes')}, {'estimated' if wide else 'expected'} recall of "
            f"known classes in a stream {self.known_recall:.3f}{interval}"
        ]
        if self.by_group is not None:
            lines += self._groups(self.by_group, f"{self.known_recall:.3f}{interval}", wide=wide)
        elif wide:
            enough = instances_that_would_do(self.known_recall)
            lines.append(f"too few instances for a promise: some {enough} would do")
        if self.correlation is not None:
            line = f"neighbouring instances depend on each other (mean correlation {self.correlation:.2f})"
            if self.by_group is None:
                among = f"{self.recall_among_neighbours or 0.0:.3f}"
                line += f": the recall is that in blocks of arrival, and among neighbours {among}"
            lines.append(line)
        if not self.references:
            return [*lines, "no reference instances were kept: nothing guards the known classes"]
        are = "is" if self.references == 1 else "are"
        return [*lines, f"{self.references} of them {are} kept as reference instances to monitor the known classes"]

    @staticmethod
    def _groups(its: RecallByGroup, new: str, *, wide: bool) -> list[str]:
        """Return the lines on the groups of the instances, from the recall for a new group."""
        lines = [its.compared(new)]
        if wide:
            lines.append("too few groups for a promise: more would narrow the interval")
        if its.undivided and its.groups > 1:
            classes = listed(map(repr, its.undivided))
            lines.append(f"only one group has these classes, so it is not left out for them: {classes}")
        return lines

    def _preparation(self) -> list[str]:
        """Return the lines on the features, and on instances that look wrong."""
        small = [f"{label!r} ({self.instances[label]})" for label in self.small_classes]
        kept, whole = self.told_apart or (1.0, 1.0)
        one_hot = [f"{own[0]} and {len(own) - 1} more" for own in self.one_hot_features]
        lists: tuple[tuple[str, Sequence[Name]], ...] = (
            ("repeat another feature, and are left out", self.repeated_features),
            ("rise or fall with the order of arrival, and are left out", self.clock_features),
            ("nearly always the same, and added up in one coordinate", self.usual_features),
            ("numbers with two values, taken for categories", self.two_valued_features),
            ("one-hot numbers, taken for a category together", one_hot),
            ("skewed, and taken to a power or by a logarithm", self.bent_features),
            ("constant in training, monitored but not modelled", self.constant_features),
            ("zero in an instance that does not name them (absent='missing' makes them missing)", self.absent_zero),
        )
        lines: tuple[tuple[object, str], ...] = (
            (small, f"fewer instances than dimensions: {listed(small)}. More instances, or a PCA, would help"),
            (
                self.told_apart,
                f"kept {self.dimensions} of {self.directions} directions. Classes that differ only in the others "
                "cannot be found. Known classes, left out in turn, are separated from the others with an area under "
                f"the ROC curve of {kept:.3f} ({whole:.3f} with all directions)",
            ),
            *((names, f"{what}: {listed(map(repr, names))}") for what, names in lists),
            (self.missing_values, f"missing values imputed from the other values: {self.missing_values}"),
            (
                self.missing_numeric > MOSTLY,
                f"{self.missing_numeric:.0%} of the numeric values are missing. If instances leave out zeros, "
                "train with absent='zero'",
            ),
            (
                self.mislabelled,
                f"{counted(self.mislabelled, 'instance')} look{'s' * (self.mislabelled == 1)} mislabelled: "
                "another class describes them",
            ),
            (self.variance_left_out > 0.10, f"the PCA leaves out {self.variance_left_out:.1%} of the variance"),
        )
        return [line for applies, line in lines if applies]

    def _classes(self) -> list[str]:
        """Return a line for each of the largest classes."""
        largest = sorted(self.instances, key=lambda label: -self.instances[label])
        lines = [
            f"class {label!r}: {counted(self.instances[label], 'instance')}, "
            f"{counted(self.subclasses.get(label, 0), 'subclass', 'subclasses')}{self._shares(label)}"
            for label in largest[:MOST_CLASSES]
        ]
        rest = len(largest) - MOST_CLASSES
        if rest > 0:
            lines.append(f"and {counted(rest, 'smaller class', 'smaller classes')}")
        return lines + [
            f"class {label!r} consists of {len(shares)} separate groups: {_percentages(shares)}"
            for label, shares in self.separate_groups.items()
        ]

    def _shares(self, label: Label) -> str:
        """Return the shares of the subclasses of a class, in parentheses."""
        shares = self.subclass_shares.get(label, ())
        return f" ({_percentages(shares)})" if len(shares) > 1 else ""

    def _understood(self) -> list[str]:
        """Return the lines on how the training data was read."""
        lines = []
        if self.numeric_features:
            lines.append(f"numeric features: {listed(map(repr, self.numeric_features))}")
        if self.categories:
            sizes = (f"{name!r} ({counted(size, 'value')})" for name, size in self.categories.items())
            lines.append(f"categories: {listed(sizes)}")
        if self.left_out:
            lines.append("left out: " + ", ".join(f"{name!r} ({why})" for name, why in self.left_out.items()))
        if self.missing_share:
            shares = sorted(self.missing_share.items(), key=lambda item: -item[1])
            lines.append(f"missing values: {listed(f'{name!r} {share:.1%}' for name, share in shares)}")
        return lines + list(self.remarks)


def _percentages(shares: Sequence[float]) -> str:
    """Format shares, largest first.

    >>> _percentages([0.51, 0.49]), _percentages([0.3, 0.2, 0.2, 0.1, 0.1, 0.1])
    ('51 %, 49 %', '30 %, 20 %, 20 %, 10 %, and 2 more')
    """
    shown = [f"{share:.0%}".replace("%", " %") for share in shares]
    return ", ".join(
        shown if len(shown) <= MOST_SHARES + 1 else [*shown[:MOST_SHARES], f"and {len(shown) - MOST_SHARES} more"]
    )


def understood(
    decided: TypedColumns, values: Mapping[Name, Collection[str]], labels: Collection[Label] = ()
) -> dict[str, Any]:
    """Return the fields of the report on how values were read, from the model's values of each category."""
    rows = len(decided.X)
    share = np.isnan(decided.X).sum(axis=0) / rows if rows else np.zeros(len(decided.names))
    remarks = [comma_text(comma, name) for name, comma in decided.kinds.commas.items() if name in decided.names]
    for name, texts in decided.odd.items():
        shown = ", ".join(map(repr, texts[:3])) + (", ..." if len(texts) > 3 else "")
        remarks.append(f"{name!r} is numeric, and values that are no numbers count as missing: {shown}")
    remarks += [
        f"warning: most values of {name!r} read as numbers, and others such as {brief(text)} do not, so that it is a "
        "category. Declare the markers of missing values with missing (--missing). Declare the feature with "
        "numeric (--numeric) as a number, or with categorical (--categorical) to silence this warning"
        for name, text in decided.looks_numeric.items()
    ]
    remarks += _doubts([label for label in labels if isinstance(label, str)])
    return {
        "numeric_features": tuple(name for name in decided.names if name not in values),
        "categories": {name: len(its) for name, its in values.items()},
        "left_out": dict(decided.kinds.left_out),
        "missing_share": {name: float(its) for name, its in zip(decided.names, share, strict=True) if its},
        "remarks": tuple(remarks),
    }


def _doubts(labels: Sequence[str]) -> list[str]:
    """Return warnings on classes that may be the same, or may be no classes.

    >>> _doubts(["idle", "Idle", "running"])
    ["warning: the classes 'idle' and 'Idle' differ by the case of letters alone. Spell them alike if they are one"]
    >>> _doubts(["idle", "?"])
    ["warning: '?' is a class. Leave the label empty if it stands for instances without a label"]
    """
    first = dict[str, str]()
    out = [
        f"warning: the classes {first[label.casefold()]!r} and {label!r} differ by the case of letters alone. "
        "Spell them alike if they are one"
        for label in labels
        if first.setdefault(label.casefold(), label) != label
    ]
    return out + [
        f"warning: {label!r} is a class. Leave the label empty if it stands for instances without a label"
        for label in labels
        if label.lower() in MISSING_NUMBERS
    ]


def report_binary_features(binary_features: BinaryFeatures, names: Sequence[Name]) -> dict[str, Any]:
    """Return the fields of the report on numbers that are categories, by the names of all features."""
    own = sorted((sorted(members.tolist()), len(low)) for members, low, _ in each_flag(binary_features))
    kinds = [(tuple(names[at] for at in members), size) for members, size in own]
    return {
        "two_valued_features": tuple(name for group, size in kinds if size == 2 for name in group),
        "one_hot_features": tuple(group for group, size in kinds if size > 2),
    }


def report_groups(known: Known, labels: Sequence[Label]) -> dict[str, Any]:
    """Return the fields of the report on the subclasses of each class."""
    shares = known.seated / np.maximum(known.seated.sum(axis=1, keepdims=True), 1.0)
    each = [tuple(sorted(own[own > 0.0].tolist(), reverse=True)) for own in shares]
    groups = [separate_groups(known, j) for j in range(len(labels))]
    return {
        "subclass_shares": dict(zip(labels, each, strict=True)),
        "separate_groups": {label: own for label, own in zip(labels, groups, strict=True) if len(own) > 1},
    }


def report_units(units: np.ndarray, group: np.ndarray, labels: Sequence[Label], same: float) -> RecallByGroup:
    """Return the part of the report on persons, devices or days, from their numbers and the classes, shape (n,)."""
    pairs = np.unique(np.stack([group, units]), axis=1)[0]
    undivided = np.flatnonzero(np.bincount(pairs, minlength=len(labels)) == 1).tolist()
    return RecallByGroup("group", len(np.unique(units)), same, tuple(labels[j] for j in undivided))


def report_plan(plan: Plan | None, names: Sequence[Name]) -> dict[str, Any]:
    """Return the fields of the report on a plan, by the names of the numeric features."""
    if plan is None:
        return {}
    return {
        "usual_features": tuple(names[a] for a in plan.rare),
        "repeated_features": tuple(names[a] for a in plan.copies),
        "clock_features": tuple(names[a] for a in plan.clocks),
        "told_apart": (plan.kept_area, plan.whole_area) if plan.partial else None,
        "directions": plan.axes + (len(plan.rare) > 0),
    }
