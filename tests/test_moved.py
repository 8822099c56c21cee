import importlib
import importlib.util
import subprocess
import sys
import warnings
from importlib.resources import files

import pytest

from stream_osr.moved import MOVED


@pytest.mark.parametrize("old", sorted(MOVED))
def test_a_module_is_found_under_its_earlier_name_and_is_the_same(old: str) -> None:
    sys.modules.pop(old, None)
    with warnings.catch_warnings(record=True) as told:  # a package above it tells of itself, once a process
        warnings.simplefilter("always")
        module = importlib.import_module(old)
    assert sum(str(each.message).startswith(f"{old} is {MOVED[old]} now") for each in told) == 1
    assert all(each.category is DeprecationWarning for each in told)
    assert module is importlib.import_module(MOVED[old])
    assert module.__spec__ is not None
    assert module.__spec__.name == MOVED[old]


def test_names_are_imported_from_earlier_modules_in_a_fresh_process() -> None:
    code = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "from stream_osr.hdp.prior import Prior\n"
        "from stream_osr_connectors.kafka import Service\n"
        "from stream_osr_connectors.kafka.settings import load_settings\n"
        "import stream_osr.hdp.gaussian_full as full\n"
        "print(Prior.__module__, Service.__module__, full.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [
        "stream_osr.model.prior",
        "stream_osr_kafka.run.service",
        "stream_osr.model.gaussian.full",
    ]


def test_schemas_lie_where_they_lay() -> None:
    sys.modules.pop("stream_osr_connectors.kafka", None)
    with pytest.warns(DeprecationWarning, match=r"stream_osr_connectors\.kafka is stream_osr_kafka now"):
        there = files("stream_osr_connectors.kafka").joinpath("schemas")
    assert there.joinpath("decision.json").is_file()
