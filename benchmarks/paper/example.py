"""The paper's protocol on one of its data sets: python -m benchmarks.paper.example PENDIGITS [SEED]."""

import sys

from benchmarks.paper.datasets import KNOWN_CLASSES, PCA_DIMENSIONS, UNKNOWN_CLASSES, DatasetNotFoundError, load
from benchmarks.paper.protocol import split
from stream_osr import OpenSetRecognizer
from stream_osr.errors import InvalidParameter
from stream_osr.evaluation import OpenSetReport
from stream_osr.instances.labels import unknown_label

name = sys.argv[1] if len(sys.argv) > 1 else "PENDIGITS"
seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
try:
    data = load(name)
except (DatasetNotFoundError, InvalidParameter) as error:
    sys.exit(f"error: {error}")
part = split(data.X, data.y, KNOWN_CLASSES[name], UNKNOWN_CLASSES[name][1], seed)

model = OpenSetRecognizer(seed=seed, pca=PCA_DIMENSIONS.get(name))
for x, y in zip(part.X_train.tolist(), part.y_train.tolist(), strict=True):
    model.learn_one(dict(enumerate(x)), y)
print(model.freeze())

for number, x in enumerate(part.X_test.tolist()):
    model.learn_one(dict(enumerate(x)), key=number)
model.flush()

report = OpenSetReport(part.known, unknown_label(None, part.known))
for decision in model.drain():
    report.update(part.y_test[decision.key].item(), decision.label)
print(
    f"{name}, seed {seed}: {len(part.known)} known and {len(part.unknown)} unknown classes, {report.n} test instances"
)
print(
    f"micro-F {report.micro_f:.4f}   unknown recall {report.unknown_recall:.4f}   known {report.known_accuracy:.4f}"
)
print(model.summary())
