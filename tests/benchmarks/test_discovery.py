from __future__ import annotations

import json
from collections import Counter

import pytest

from benchmarks.discovery import streamndr
from benchmarks.discovery.__main__ import main


def test_stream_is_that_of_the_read_me():
    training, stream = streamndr.parts()
    assert Counter(y for _, y in training) == {1: 682, 0: 318}
    # the row sums of the confusion matrices that streamndr's read-me prints
    assert Counter(y for _, y in stream) == {0: 1150, 1: 2532, 2: 724, 3: 594}


def test_figures_are_printed_and_written(tmp_path, capsys):
    main(["streamndr", "--seeds", "1", "--json", str(tmp_path / "figures.json")])
    (run,) = json.loads((tmp_path / "figures.json").read_text())["streamndr"]
    printed = capsys.readouterr().out
    assert f"{100 * run['final Err']:.2f}" in printed
    assert "22.74" in printed
    # MNew, FNew and what is left, confusion of the known, make up Err
    least = (run["final MNew"] * 1318 + run["final FNew"] * 3682) / 5000
    assert least <= run["final Err"] <= least + 0.1


def test_unknown_setting_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["minas"])
    assert "expected some of streamndr" in capsys.readouterr().err
