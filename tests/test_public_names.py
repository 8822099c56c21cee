"""The public surface: a change here is a change for everybody who uses the library."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable

import stream_osr
from stream_osr import (
    ActionUndone,
    CandidateClass,
    ClassDrifted,
    ColumnFailed,
    Decision,
    DependenceFound,
    EventsSummed,
    FailedDecision,
    Input,
    Limits,
    ModelOptions,
    NewClasses,
    NewClassesChanged,
    OpenSetRecognizer,
    RecallDropped,
    RowsRepeated,
    Signals,
    SubclassDormant,
    SubclassEmerged,
    SubclassForgotten,
    SubclassGrew,
    SubclassMerged,
    SubclassMuted,
    SubclassPromoted,
    SubclassRecurred,
    SubclassRefuted,
    SubclassSplit,
    Summary,
    TrainingReport,
    UnknownRateJumped,
    evaluation,
)
from tests.doors.trust import ExpectedRecall


def test_names_of_the_package():
    assert stream_osr.__all__ == [
        "ActionUndone",
        "CandidateClass",
        "ClassDrifted",
        "ColumnFailed",
        "Decision",
        "DependenceFound",
        "Event",
        "EventsSummed",
        "FailedDecision",
        "Input",
        "Limits",
        "ModelOptions",
        "NewClasses",
        "NewClassesChanged",
        "OpenSetRecognizer",
        "RecallDropped",
        "RowsRepeated",
        "Signals",
        "SubclassDormant",
        "SubclassEmerged",
        "SubclassForgotten",
        "SubclassGrew",
        "SubclassMerged",
        "SubclassMuted",
        "SubclassPromoted",
        "SubclassRecurred",
        "SubclassRefuted",
        "SubclassSplit",
        "Summary",
        "TrainedModel",
        "TrainingReport",
        "UnknownRateJumped",
    ]
    assert all(hasattr(stream_osr, name) for name in stream_osr.__all__)
    assert isinstance(stream_osr.__version__, str)


def test_names_of_the_evaluation():
    assert set(evaluation.__all__) == {
        *(
            "OpenSetReport",
            "openness",
            "ReliabilityCurve",
            "auroc",
            "expected_calibration_error",
            "fpr_at_recall",
            "oscr",
            "reliability_curve",
        ),
        *("AUROC", "Err", "FNew", "MNew", "OpenSetMacroF", "OpenSetMetric", "OpenSetMicroF"),
        *("CER", "NoveltyPattern", "Purity", "UnkR", "pattern_of"),
        *("Detection", "TimeToDetection"),
        *("Instant", "Prequential", "open_set_metrics", "prequential"),
    }
    assert all(hasattr(evaluation, name) for name in evaluation.__all__)
    assert arguments(evaluation.prequential) == [
        *("stream", "model", "metric", "delay", "label_share", "step", "seed"),
    ]


def defaults(kind: Callable[..., object]) -> dict[str, object]:
    return {name: p.default for name, p in inspect.signature(kind).parameters.items()}


def test_arguments_of_the_constructor():
    assert defaults(OpenSetRecognizer) == {
        "batch_size": 256,
        "max_wait": None,
        "unknown": None,
        "decision_delay": 0,
        "min_probability": 0.0,
        "max_false_unknown": None,
        "follow_drift": False,
        "half_life": 200.0,
        "chains": 4,
        "n_jobs": None,
        "pca": None,
        "seed": 0,
        "categorical": None,
        "input": None,
        "limits": None,
        "model": None,
    }


def test_arguments_in_groups():
    assert defaults(Input) == {
        "categorical": None,
        "numeric": None,
        "missing": None,
        "on_missing": "impute",
        "absent": "auto",
        "order": "arrival",
    }
    assert defaults(Limits) == {
        "max_training": 5000,
        "max_classes": 1000,
        "max_subclasses": 200,
        "max_dormant": 1000,
        "label_horizon": 10_000,
        "references": 1000,
    }
    assert defaults(ModelOptions) == {
        "nu": None,
        "scale": None,
        "beta": None,
        "epsilon": 0.01,
        "background_component": True,
        "learn_odds": True,
        "ensemble": "mixed",
        "training_sweeps": 25,
        "sweeps": 5,
        "window": None,
        "drift_interval": 1e6,
        "freezing": "auto",
    }


def test_documentation_says_what_each_argument_means():
    assert OpenSetRecognizer.__doc__ is not None
    lines = OpenSetRecognizer.__doc__.splitlines()
    section = lines[lines.index("Parameters") + 2 : lines.index("Attributes")]
    told = [name for line in section if line and not line.startswith(" ") for name in line.split(", ")]
    assert told == list(inspect.signature(OpenSetRecognizer).parameters)
    for kind in (Input, Limits, ModelOptions):
        section = inspect.cleandoc(kind.__doc__ or "").partition("----------\n")[2].partition("\n\nExamples")[0]
        named = [name for line in section.splitlines() if not line.startswith(" ") for name in line.split(", ")]
        assert named == list(inspect.signature(kind).parameters)


def test_members_of_the_recognizer():
    house = [kind for kind in OpenSetRecognizer.__mro__ if kind.__module__.startswith("stream_osr.")]
    own = {name for kind in house for name in vars(kind) if not name.startswith("_")}
    assert own - {*inspect.signature(OpenSetRecognizer).parameters} == {
        "arguments",
        "as_state",
        "carry_over",
        "clone",
        "close_batch",
        "count_refused",
        "counters",
        "decisions_frame",
        "drain",
        "drain_events",
        "emerged_statistics",
        "expected_recall",
        "flush",
        "freeze",
        "from_state",
        "from_stream_state",
        "from_trained",
        "learn_label",
        "learn_many",
        "learn_rows",
        "learn_one",
        "load",
        "menu",
        "mute",
        "new_classes",
        "note_ignored",
        "pending",
        "plot",
        "predict_many",
        "predict_one",
        "predict_proba_many",
        "predict_proba_one",
        "promote",
        "remembers",
        "save",
        "set_batch_aside",
        "set_min_probability",
        "signals",
        "stream_state",
        "summary",
        "to_frame",
        "trained",
        "undo",
    }


def arguments(function: object) -> list[str]:
    return [str(p).split(":")[0] for p in inspect.signature(function).parameters.values()]


def test_arguments_of_learning_and_asking():
    assert arguments(OpenSetRecognizer.learn_one) == ["self", "x", "y", "t", "key"]
    assert arguments(OpenSetRecognizer.learn_many) == ["self", "X", "y", "t", "key"]
    assert arguments(OpenSetRecognizer.learn_label) == ["self", "key", "y"]
    assert arguments(OpenSetRecognizer.promote) == ["self", "subclass_ids", "label"]
    assert arguments(OpenSetRecognizer.mute) == ["self", "subclass_ids"]
    assert arguments(OpenSetRecognizer.undo) == ["self"]
    for name, data in (
        ("predict_one", "x"),
        ("predict_proba_one", "x"),
        ("predict_many", "X"),
        ("predict_proba_many", "X"),
    ):
        assert arguments(getattr(OpenSetRecognizer, name)) == ["self", data, "**kwargs"]


def test_fields_of_what_is_told():
    assert FailedDecision._fields == ("key", "t", "x", "label", "reason")
    assert Decision._fields == (
        *("key", "t", "label", "first_label", "probability", "p_unknown", "probabilities", "subclass_id"),
        *("nearest_class", "distance", "density_rank", "batch", "seq"),
    )
    about = ["batch", "seq", "model"]
    subclass = [
        *("subclass_id", "first_seen", "last_seen", "size", "share", "support", "trend", "exemplars", "explanation"),
    ]
    for kind in (SubclassEmerged, SubclassGrew, SubclassDormant, SubclassRecurred, SubclassMuted):
        assert [f.name for f in dataclasses.fields(kind)] == about + subclass
    assert [f.name for f in dataclasses.fields(SubclassMerged)] == [*about, "subclass_id", "into", "size"]
    assert [f.name for f in dataclasses.fields(SubclassSplit)] == [
        *(*about, "subclass_id", "new_id", "sizes", "exemplars", "explanation"),
    ]
    assert [f.name for f in dataclasses.fields(SubclassPromoted)] == [*about, *subclass, "label"]
    assert [f.name for f in dataclasses.fields(ActionUndone)] == [*about, "action", "subclass_ids", "label"]
    assert [f.name for f in dataclasses.fields(SubclassForgotten)] == [*about, "subclass_id", "last_seen"]
    assert [f.name for f in dataclasses.fields(NewClassesChanged)] == [*about, "delta", "before", "subclasses"]
    assert [f.name for f in dataclasses.fields(ClassDrifted)] == [
        *about,
        *("label", "direction", "since", "size", "rank_before", "rank_now", "movement"),
    ]
    assert [f.name for f in dataclasses.fields(SubclassRefuted)] == [
        *(*about, "subclass_id", "label", "known_share", "size"),
    ]
    assert [f.name for f in dataclasses.fields(EventsSummed)] == [*about, "counts", "since", "until", "emerged"]
    assert [f.name for f in dataclasses.fields(RecallDropped)] == [
        *(*about, "recall", "low", "high", "false_unknown", "promised"),
    ]
    assert [f.name for f in dataclasses.fields(UnknownRateJumped)] == [*about, "rate", "before", "since", "size"]
    assert [f.name for f in dataclasses.fields(ColumnFailed)] == [
        *(*about, "column", "kind", "since", "size", "value", "low", "high", "longest"),
    ]
    assert [f.name for f in dataclasses.fields(RowsRepeated)] == [*about, "first", "size", "usual"]
    assert [f.name for f in dataclasses.fields(DependenceFound)] == [
        *(*about, "kind", "labels", "correlation", "since"),
    ]
    assert ExpectedRecall._fields == ("recall", "low", "high", "false_unknown")
    assert Signals._fields == (
        *("novelty", "drift", "outliers", "data_quality", "recall_drops", "expected_recall", "recall_dropped"),
        *("rate_jumps", "data_faults", "faulty_columns", "dependence", "dependent_since"),
    )
    assert [f.name for f in dataclasses.fields(Summary)] == [
        *("known", "stream_size", "known_share", "unknown_share", "emerging", "delta", "new_classes"),
        *("promised_recall", "expected_recall", "guarded", "unmet"),
    ]
    assert [f.name for f in dataclasses.fields(NewClasses)] == ["candidates", "number", "delta", "low", "high"]
    assert [f.name for f in dataclasses.fields(CandidateClass)] == [
        *("subclasses", "size", "share", "nearest_class", "exemplars"),
    ]
    assert [f.name for f in dataclasses.fields(TrainingReport)] == [
        *("instances", "subclasses", "known_recall", "small_classes", "constant_features", "missing_values"),
        *("variance_left_out", "recall_interval", "references"),
        *("dimensions", "usual_features", "repeated_features", "told_apart"),
        *("two_valued_features", "one_hot_features", "one_valued_features", "bent_features"),
        *(
            "clock_features",
            "mislabelled",
            "correlation",
            "recall_among_neighbours",
            "absent_zero",
            "missing_numeric",
        ),
        *("numeric_features", "categories", "left_out", "missing_share", "remarks"),
    ]
