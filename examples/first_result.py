"""A first result of one's own: from a table with text columns to a new class that has got a name.

Run it in an empty folder, where stream-osr is installed with its extra ``plot``::

    python examples/first_result.py

It writes three tables that stand for yours, readings of a pump with a state, and then gives the commands that you
would give, one after the other. After each it looks at what came out, and ends with an error if that is not so.
The state "leaking seal" is in none of the labelled readings. Nothing here but the tables is made for the example.
"""

from __future__ import annotations

import csv
import json
import random
import subprocess
from collections import Counter
from pathlib import Path

# state: temperature, vibration, pressure; how often in each mode; how often with the valve so
STATES = {
    "normal": ((61.0, 2.0, 4.0), {"eco": 6, "boost": 2}, {"open": 9, "half": 1}),
    "worn bearing": ((66.0, 5.0, 4.1), {"eco": 5, "boost": 3}, {"open": 9, "half": 1}),
    "clogged filter": ((64.0, 2.2, 2.6), {"eco": 3, "boost": 5}, {"open": 5, "half": 5}),
    "leaking seal": ((60.0, 2.6, 2.0), {"eco": 6, "boost": 2}, {"half": 8, "open": 2}),
}
KNOWN = ["normal", "worn bearing", "clogged filter"]
NEW = "leaking seal"
FEATURES = ["temperature", "vibration", "pressure", "mode", "valve"]


def main() -> None:
    """Write the tables, and give the commands."""
    rng = random.Random(7)
    labelled = [rng.choice(KNOWN) for _ in range(600)]
    monday = [rng.choice(KNOWN if i < 200 or rng.random() < 0.75 else [NEW]) for i in range(600)]
    tuesday = [rng.choice(KNOWN if rng.random() < 0.75 else [NEW]) for _ in range(400)]
    write("labelled.csv", rng, labelled, first=0, with_state=True)
    write("readings.csv", rng, monday, first=1000)
    write("tuesday.csv", rng, tuesday, first=2000)
    truth = {f"r{1000 + i}": state for i, state in enumerate(monday)}
    truth |= {f"r{2000 + i}": state for i, state in enumerate(tuesday)}
    Path("truth.csv").write_text("id,state\n" + "".join(f"{key},{state}\n" for key, state in truth.items()))
    the_walk(truth)


def the_walk(truth: dict[str, str]) -> None:
    """Give the commands, and look at what comes out."""
    run = (
        "stream-osr run --model pump.osr --input readings.csv --key id --output decisions.jsonl --events events.jsonl"
    )
    report = "stream-osr report decisions.jsonl.checkpoint decisions.jsonl events.jsonl --input readings.csv --key id"

    told = command("Learn the states that we know.", "stream-osr fit labelled.csv --label state --key id -o pump.osr")
    check("trained on 600 instances of 3 classes" in told, "three states are known")
    check(
        "features: mode, pressure, temperature, valve, vibration" in told,
        "text columns are features, the key is none",
    )

    told = command("Decide Monday's readings.", run)
    check("600 read, 600 decided" in told, "every reading is decided")
    monday = decisions()
    kinds = Counter((truth[key] == NEW, label == "unknown") for key, label in monday.items())
    right = sum(label == truth[key] for key, label in monday.items() if truth[key] != NEW)
    check(right > 0.95 * (kinds[False, False] + kinds[False, True]), "known states are called by their name")
    check(kinds[True, True] > 0.8 * (kinds[True, True] + kinds[True, False]), "what nobody had labelled is unknown")

    told = command("What has emerged?", "stream-osr inspect decisions.jsonl.checkpoint")
    check("1 new subclass" in told, "it is one thing")
    events = [json.loads(line) for line in Path("events.jsonl").read_text().splitlines()]
    (emerged,) = [event for event in events if event["type"] == "SubclassEmerged"]
    keys = emerged["exemplars"]
    print(f"The event tells which readings to look at: {', '.join(keys)}")
    check({truth[key] for key in keys} == {NEW}, "they are of the new state")

    command("Look at it: one page, for the browser.", f"{report} -o report.html")
    number = emerged["subclass_id"]
    naming = f"stream-osr promote {number} NAME --checkpoint decisions.jsonl.checkpoint"
    check(naming in Path("report.html").read_text(), "the page shows it, and the command that names it")

    told = command("We have looked: name it.", naming.replace("NAME", f"'{NEW}'"))
    check("done" in told, "it has its name")

    # Tuesday's readings come below Monday's, as they would in a file that grows
    with Path("readings.csv").open("a") as readings:
        readings.writelines(Path("tuesday.csv").read_text().splitlines(keepends=True)[1:])
    told = command("Go on with Tuesday's readings.", f"{run} --resume")
    check("1000 read, 1000 decided" in told, "the run went on where it was")
    tuesday = {key: label for key, label in decisions().items() if key not in monday}
    found = [label == NEW for key, label in tuesday.items() if truth[key] == NEW]
    check(sum(found) > 0.8 * len(found), f"{sum(found)} of {len(found)} readings of a {NEW} are called so")
    right = sum(label == truth[key] for key, label in tuesday.items())
    check(right > 0.95 * len(tuesday), f"{right} of Tuesday's {len(tuesday)} readings are called what they are")

    told = command("Who has named what?", "stream-osr history --checkpoint decisions.jsonl.checkpoint")
    check(NEW in told, "the record has it")
    command("The page again, and how right it was.", f"{report} --truth truth.csv --label state -o report.html")
    print("\nAll as it should be. Open report.html; examples/first_result.py has the commands.")


def write(name: str, rng: random.Random, states: list[str], first: int, *, with_state: bool = False) -> None:
    """Write a table of readings."""
    with Path(name).open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", *FEATURES, *(["state"] if with_state else [])])
        for i, state in enumerate(states):
            centre, modes, valves = STATES[state]
            numbers = [round(rng.gauss(at, spread), 2) for at, spread in zip(centre, (1.2, 0.4, 0.25), strict=True)]
            texts = [rng.choices([*values], [*values.values()])[0] for values in (modes, valves)]
            table.writerow([f"r{first + i}", *numbers, *texts, *([state] if with_state else [])])


def command(why: str, line: str) -> str:
    """Give a command, show it and what it says, and return that."""
    print(f"\n# {why}\n$ {line}", flush=True)
    done = subprocess.run(line, shell=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(done.stdout, end="", flush=True)
    check(done.returncode == 0, "it ended well")
    return done.stdout


def check(holds: bool, what: str) -> None:
    """Say what holds; what does not ends the program."""
    if not holds:
        raise SystemExit(f"NOT SO: {what}")
    print(f"  ok: {what}")


def decisions() -> dict[str, str]:
    """Read the label of each reading that is decided."""
    lines = Path("decisions.jsonl").read_text().splitlines()
    return {record["key"]: record["label"] for record in map(json.loads, lines)}


if __name__ == "__main__":
    main()
