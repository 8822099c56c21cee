"""What a transaction has published, counted; and the audit: every record has come to something acknowledged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from stream_osr import EventsSummed, RecallDropped, UnknownRateJumped
from stream_osr.trust.recall import ExpectedRecall

from ..figures import SUMMED, Figures, Recall
from ..log import logger
from ..settings import ServiceSettings
from ..wire.messages import Outgoing
from .publishing import Batch


def account(
    figures: Figures, settings: ServiceSettings, batches: Sequence[Batch], messages: Sequence[Outgoing]
) -> None:
    """Count what has been committed.

    Parameters
    ----------
    figures
        Where it is counted.
    settings
        Name the topics.
    batches
        Of the transaction.
    messages
        All of it, each of which a topic has acknowledged.
    """
    published = Counter((message.topic, message.partition) for message in messages)
    dead = {(message.partition, message.offset) for message in messages if message.topic == settings.dead_letters}
    expected: Counter[int] = Counter()
    for number, before, after, records, outcome in batches:
        figures.add("records", number, len(records))
        figures.add("labelled", number, outcome.labelled)
        figures.add("skipped", number, outcome.skipped)
        figures.add("missing", number, outcome.missing)
        figures.add("values", number, outcome.values)
        figures.add("commands_left", number, outcome.left)
        made = [decision for origin, decision in outcome.decisions if (number, origin.offset) not in dead]
        unknown = sum(decision.label == next(reversed(decision.probabilities)) for decision in made)
        figures.add("unknown", number, unknown)
        figures.add("known", number, len(made) - unknown)
        held = len(after.waiting) - len(before.waiting)
        expected[number] += len(records) - outcome.labelled - outcome.skipped - held
        if number in figures.partitions:
            its = figures.partitions[number]
            its.position = after.history.last.offset
            its.held, its.pending = len(after.waiting), max(0, its.pending - len(records))
            its.follow(after.model)
        for event in outcome.events:
            if isinstance(event, EventsSummed):
                for kind, count in event.counts.items():
                    figures.add(f"{SUMMED}{kind}", number, count)
            if isinstance(event, RecallDropped):
                now = ExpectedRecall(event.recall, event.low, event.high, event.false_unknown)
                told = Recall(now, event.promised, dropped=True)
                logger.warning("%s/%d: %s; look at data quality and drift", settings.input, number, told)
            if isinstance(event, UnknownRateJumped):
                figures.add("rate_jumps", number, 1)
                said = (event.rate, event.size, event.before)
                logger.warning(
                    "%s/%d: %.3f of the last %d called unknown, usually %.3f", settings.input, number, *said
                )
        for received, refusal in outcome.refused:
            why, place = type(refusal.error).__name__, (settings.input, number, received.offset)
            logger.debug("%s/%d at %d is a dead letter: %s, %s", *place, refusal.stage, why)
    for number, wanted in expected.items():
        letters, decisions = published[settings.dead_letters, number], published[settings.output, number]
        figures.add("dead_letters", number, letters)
        figures.add("events", number, published[settings.events, number])
        figures.add("unaccounted", number, abs(wanted - letters - decisions))
        if wanted != letters + decisions:
            logger.critical(
                f"{settings.input}/{number}: {wanted} records were committed and {letters + decisions} decisions and "
                "dead letters; this is a defect"
            )
