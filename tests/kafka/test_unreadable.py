"""What the client itself cannot unpack: names of headers that are no text, damaged batches, codecs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stream_osr_connectors.kafka import KafkaSource
from stream_osr_connectors.kafka.wire.messages import RawName
from tests.kafka.brokers import Broker
from tests.kafka.scraping import metrics, total
from tests.kafka.streams import Sent, Stream, Worker, check_exactly_once, instances, small_model

GOOD = b'{"a": 1.0, "b": 2.0}'
LATIN = RawName(b"gr\xf6\xdfe".decode("utf-8", "surrogateescape"))


def test_a_name_that_is_no_text_gives_its_bytes_again() -> None:
    assert LATIN.encode() == LATIN.encode("utf-8") == b"gr\xf6\xdfe"
    with pytest.raises(UnicodeEncodeError):
        str.encode(LATIN)


def test_names_of_headers_that_are_no_text(broker: Broker, tmp_path: Path) -> None:
    """Between other records of a compressed batch; the bytes are looked for in the broker's own files."""
    stream = Stream(broker.address, tmp_path, 1, small_model())
    poison = Sent(b"p", GOOD, (("größe", b"1"), (LATIN, b"2"), (RawName("\udcff"), b""), ("trace", b"x")))
    plain = Sent(b"good", GOOD, (("größe", b"1"), ("trace", b"y")))
    feed = [*instances(40, 1), (0, poison), (0, plain), (0, poison), *instances(40, 1, 1, begin=40), (0, poison)]
    stream.send(feed, compression_type="gzip")
    worker = Worker(stream)
    stream.wait()
    assert worker.stop() == 0
    check_exactly_once(stream)
    (dead,) = stream.read("dlq")
    assert [dict(record.headers)["__connect.errors.offset"] for record in dead] == [b"40", b"42", b"83"]
    for record in dead:
        assert (record.key, record.value) == (b"p", GOOD)
        assert [(name.encode(), value) for name, value in record.headers[:4]] == [
            ("größe".encode(), b"1"),
            (b"gr\xf6\xdfe", b"2"),
            (b"\xff", b""),
            (b"trace", b"x"),
        ]
        told = dict(record.headers)["__connect.errors.exception.message"]
        assert told == b"the name of header 2 of 4 is not UTF-8"
    for suffix, count in (("dlq", 3), ("decisions", 0)):
        stored = b"".join(file.read_bytes() for file in broker.files_of(f"{stream.topic}.{suffix}", 0))
        assert stored.count(b"gr\xf6\xdfe") == count
    with KafkaSource(f"{stream.topic}.dlq", brokers=broker.address) as source:
        assert len(list(source)) == 3
    assert not any(word in line for line in worker.lines() for word in ("Traceback", "replaced"))


def test_a_damaged_batch_holds_up_its_partition_alone_until_it_is_mended(broker: Broker, tmp_path: Path) -> None:
    """A byte on the broker's disk is changed, and later changed back."""
    stream = Stream(broker.address, tmp_path, 2, small_model(), metrics_port=0)
    stream.send(instances(600, 2))
    (file,) = broker.files_of(stream.topic, 0)
    damaged = file.stat().st_size - 1
    change_byte(file, damaged)
    worker = Worker(stream)
    stream.wait(lambda: stream.committed()[1] == 300)
    worker.await_line("again in 2 s")
    stream.send(instances(100, 2, 1, begin=600))
    stream.wait(lambda: stream.committed()[1] == 350)
    assert 0 < stream.committed()[0] < 300, "what lies before it has been decided"
    lines = [line for line in worker.lines() if "cannot be read from" in line]
    places = {found.groups() for line in lines if (found := re.search(r"(\S+) cannot be read from (\d+) on", line))}
    assert places == {(f"{stream.topic}/0", str(stream.committed()[0]))}
    assert all("crc" in line and "let another replica lead" in line for line in lines)
    assert len(lines) <= 5, "it is tried less and less often"
    told = metrics(worker)
    assert total(told, "stream_osr_unreadable_total", partition="0") >= 2
    assert total(told, "stream_osr_unreadable_total", partition="1") == 0
    change_byte(file, damaged)
    stream.wait()
    assert worker.stop() == 0
    check_exactly_once(stream)
    assert any(f"{stream.topic}/0 can be read again" in line for line in worker.lines())
    assert not any("replaced" in line for line in worker.lines())


def test_batches_of_every_codec(broker: Broker, tmp_path: Path) -> None:
    """A producer's choice, not ours."""
    for module in ("lz4", "snappy", "zstandard"):
        pytest.importorskip(module)
    stream = Stream(broker.address, tmp_path, 1, small_model(), compression="zstd")
    for number, codec in enumerate(("gzip", "lz4", "snappy", "zstd")):
        stream.send(instances(40, 1, number, begin=40 * number), compression_type=codec)
    worker = Worker(stream)
    stream.wait()
    assert worker.stop() == 0
    check_exactly_once(stream)


def change_byte(file: Path, place: int) -> None:
    """Change a byte, or change it back."""
    with file.open("r+b") as log:
        log.seek(place)
        byte = log.read(1)[0]
        log.seek(place)
        log.write(bytes([byte ^ 0xFF]))
