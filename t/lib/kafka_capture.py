# SPDX-License-Identifier: Apache-2.0
"""What clients produced and fetched, out of the frames that kafka_proxy kept.

A batch is (topic, partition, base offset) and its bytes. Between Produce and Fetch a node may change base offset (bytes
0 to 7) and partition leader epoch (12 to 15) and nothing else: the CRC covers what is behind them and is the client's
own."""
import kafka_proxy, kafka_wire
from tap import same

MAY_CHANGE = ((0, 8), (12, 16))


def _decode(e, api):
    """(request, response) of an exchange."""
    form = kafka_wire.tables()[0]
    flexible = form[api + "Request"].flexible is not None and e.version >= form[api + "Request"].flexible
    head = kafka_wire.Reader(e.request)
    head.struct(form["RequestHeader"].top, 2 if flexible else 1, flexible)
    request = kafka_wire.decode(api + "Request", e.version, e.request[head.at:], behind=True)
    if e.response is None:
        return request, None
    return request, kafka_wire.decode(api + "Response", e.version, e.response[5 if flexible else 4:])


def topic_names(proxy):
    """{topic id: name} that Metadata answers told."""
    known = {}
    for e in proxy.of(kafka_proxy.METADATA):
        if e.version >= 10 and e.response is not None:
            known.update({t.topic_id: t.name for t in _decode(e, "Metadata")[1].topics})
    return known


def produced(proxy):
    """{(topic, partition, base offset): batch} of what was acknowledged."""
    found = {}
    for e in proxy.of(kafka_proxy.PRODUCE):
        request, response = _decode(e, "Produce")
        sent = {(t.name, p.index): p.records for t in request.topic_data for p in t.partition_data}
        for t in response.responses if response else ():
            for p in t.partition_responses:
                if p.error_code == 0:
                    batch, = kafka_wire.batches(sent[t.name, p.index])
                    found[t.name, p.index, p.base_offset] = batch
    return found


def asked(proxy, topic):
    """The partitions of a topic that Fetch requests named."""
    names, found = topic_names(proxy), set()
    for e in proxy.of(kafka_proxy.FETCH):
        for t in _decode(e, "Fetch")[0].topics:
            if topic in (t.topic, names.get(t.topic_id)):
                found |= {p.partition for p in t.partitions}
    return found


def fetched(proxy):
    """[((topic, partition, base offset), batch)] of all that came, in order."""
    names, found = topic_names(proxy), []
    for e in proxy.of(kafka_proxy.FETCH):
        response = _decode(e, "Fetch")[1]
        for t in response.responses if response else ():
            for p in t.partitions:
                for b in kafka_wire.batches(p.records):
                    found.append(((t.topic or names[t.topic_id], p.partition_index, b.base_offset), b))
    return found


def unchanged(key, sent, came):
    """Asserts that a batch came as it was sent but for what may change."""
    same((len(came.bytes), came.crc), (len(sent.bytes), sent.crc), f"length and CRC of {key}")
    masked = [bytearray(b.bytes) for b in (sent, came)]
    for begin, end in MAY_CHANGE:
        for b in masked:
            b[begin:end] = bytes(end - begin)
    differ = [i for i, (x, y) in enumerate(zip(*masked)) if x != y]
    same(differ, [], f"bytes of {key} that differ")
    assert came.epoch >= 0, f"{key}: leader epoch {came.epoch}"
