#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What administrators ask of a broker, byte by byte and through kafka-python: configs described and altered, partitions
added, records deleted, ends of epochs, the cluster and topics described, and what is refused with which code."""
import json, subprocess

import kafka_wire, node, tap
from kafka_wire import Client, batch
from tap import run, same, test

n = node.Node("--num-partitions=3", "--retention-ms=86400000", "--max-partitions=8", kafka=True)
TOPIC, BROKER = 2, 4
BASE = 1700000000000


def client():
    return Client(n.kafka_port)


def topic(c, name, partitions=1, **more):
    same(c.create(name, partitions=partitions, **more), [0], f"create {name}")
    return name


def describe(c, kind, name, version=4, keys=None, **more):
    a = c.call("DescribeConfigs", version, resources=[{"resource_type": kind, "resource_name": name, "configuration_keys": keys}], **more)
    r = a.results[0]
    same((r.resource_type, r.resource_name), (kind, name), "which resource")
    return r


def values(c, name, *keys):
    return {k.name: k.value for k in describe(c, TOPIC, name, keys=list(keys)).configs}


@test("DescribeConfigs: every config of a topic with its source, in every version; one that nobody set has the default")
def describe_topic():
    with client() as c:
        name = topic(c, "described", configs=[("retention.ms", "5000"), ("max.message.bytes", "2000")])
        for version in range(5):
            r = describe(c, TOPIC, name, version)
            same(r.error_code, 0, f"version {version}")
            configs = {k.name: k for k in r.configs}
            for key in ("cleanup.policy", "compression.type", "max.message.bytes", "message.timestamp.type", "min.insync.replicas",
                        "pico.schema", "pico.schema.validate", "retention.bytes", "retention.ms", "segment.bytes"):
                assert key in configs, f"{key} in version {version}"
            same([k.name for k in r.configs], sorted(configs), "order of names")
            same([configs[k].value for k in ("retention.ms", "max.message.bytes", "cleanup.policy", "retention.bytes", "min.insync.replicas")],
                 ["5000", "2000", "delete", "-1", "1"], f"values {version}")
            if version == 0:
                same([configs[k].is_default for k in ("retention.ms", "cleanup.policy")], [False, True], "is_default")
            else:
                same([configs[k].config_source for k in ("retention.ms", "cleanup.policy")], [1, 5], f"sources {version}")
            same({k.is_sensitive for k in r.configs}, {False}, "nothing is secret")


@test("DescribeConfigs: synonyms go from the topic's own value over the node's to the default; types and documentation")
def describe_more():
    with client() as c:
        name = topic(c, "synonyms", configs=[("retention.ms", "5000")])
        r = describe(c, TOPIC, name, 3, keys=["retention.ms"], include_synonyms=True, include_documentation=True)
        k, = r.configs
        same([(s.name, s.value, s.source) for s in k.synonyms],
             [("retention.ms", "5000", 1), ("log.retention.ms", "86400000", 4), ("log.retention.ms", "-1", 5)], "synonyms")
        same((k.config_type, bool(k.documentation)), (5, True), "a LONG that says what it is")
        r = describe(c, TOPIC, topic(c, "without"), 3, keys=["retention.ms", "no.such"])
        same([(k.name, k.value, k.config_source, k.synonyms, k.documentation) for k in r.configs],
             [("retention.ms", "86400000", 4, [], None)], "the node's value, without what was not asked for")


@test("DescribeConfigs: the node's options; other brokers, unknown topics and kinds have an error each")
def describe_others():
    with client() as c:
        r = describe(c, BROKER, "1")
        configs = {k.name: k for k in r.configs}
        same({k: configs[k].value for k in ("num.partitions", "default.replication.factor", "auto.create.topics.enable", "log.retention.ms")},
             {"num.partitions": "3", "default.replication.factor": "1", "auto.create.topics.enable": "true", "log.retention.ms": "86400000"},
             "options")
        same({k.read_only for k in r.configs}, {True}, "they are not altered from here")
        same(describe(c, BROKER, "").error_code, 0, "of all brokers")
        for kind, name, code in ((BROKER, "7", 42), (TOPIC, "unknown", 3), (TOPIC, "a b", 17), (8, "1", 42), (99, "x", 42)):
            r = describe(c, kind, name)
            same((r.error_code, bool(r.error_message), r.configs), (code, True, []), f"{kind} {name}")


def incremental(c, name, *changes, kind=TOPIC, version=1, **more):
    configs = [{"name": k, "config_operation": op, "value": v} for k, op, v in changes]
    return c.call("IncrementalAlterConfigs", version, resources=[{"resource_type": kind, "resource_name": name, "configs": configs}],
                  **more).responses[0]


@test("IncrementalAlterConfigs: set, delete, append, subtract; what is refused changes nothing")
def alter_incrementally():
    with client() as c:
        name = topic(c, "incremental", configs=[("retention.ms", "5000")])
        for version in (0, 1):
            value = str(6000 + version)
            same(incremental(c, name, ("retention.ms", 0, value), ("flush.ms", 0, "9"), version=version).error_code, 0, "set")
            same(values(c, name, "retention.ms", "flush.ms"), {"retention.ms": value, "flush.ms": "9"}, "both hold")
        same(incremental(c, name, ("retention.ms", 1, None)).error_code, 0, "delete")
        same(values(c, name, "retention.ms", "flush.ms"), {"retention.ms": "86400000", "flush.ms": "9"}, "one has its default")
        same(incremental(c, name, ("cleanup.policy", 2, "compact")).error_code, 0, "append")
        same(values(c, name, "cleanup.policy"), {"cleanup.policy": "delete,compact"}, "appended")
        same(incremental(c, name, ("cleanup.policy", 2, "compact")).error_code, 0, "append what is there")
        same(incremental(c, name, ("cleanup.policy", 3, "delete")).error_code, 0, "subtract")
        same(values(c, name, "cleanup.policy"), {"cleanup.policy": "compact"}, "subtracted")
        for change, code in ((("retention.ms", 0, "x"), 40), (("no.such", 0, "1"), 40), (("no.such", 1, None), 40),
                             (("retention.ms", 2, "1"), 40), (("retention.ms", 0, None), 42), (("retention.ms", 7, "1"), 42),
                             (("pico.schema.validate", 0, "true"), 40)):
            a = incremental(c, name, ("flush.ms", 0, "10"), change)
            same((a.error_code, bool(a.error_message)), (code, True), str(change))
        same(incremental(c, name, ("flush.ms", 0, "1"), ("flush.ms", 0, "2")).error_code, 42, "twice")
        same(values(c, name, "flush.ms"), {"flush.ms": "9"}, "nothing of what was refused")
        same(incremental(c, name, ("flush.ms", 0, "11"), validate_only=True).error_code, 0, "only validated")
        same(incremental(c, name, ("flush.ms", 0, "x"), validate_only=True).error_code, 40, "only validated, bad")
        same(values(c, name, "flush.ms"), {"flush.ms": "9"}, "nothing of what was only validated")
        for kind, resource, code in ((TOPIC, "unknown", 3), (TOPIC, "a b", 17), (BROKER, "1", 42), (8, "1", 42)):
            same(incremental(c, resource, ("flush.ms", 0, "1"), kind=kind).error_code, code, f"{kind} {resource}")


@test("AlterConfigs replaces everything; a resource named twice is refused, the others are not")
def alter_whole():
    with client() as c:
        name, other = topic(c, "whole", configs=[("flush.ms", "7"), ("retention.ms", "8")]), topic(c, "whole2")
        def alter(*resources, version=2, **more):
            rs = [{"resource_type": TOPIC, "resource_name": t, "configs": [{"name": k, "value": v} for k, v in kv.items()]} for t, kv in resources]
            return [r.error_code for r in c.call("AlterConfigs", version, resources=rs, **more).responses]
        for version in range(3):
            same(alter((name, {"retention.ms": "9"}), version=version), [0], f"version {version}")
        same(values(c, name, "flush.ms", "retention.ms"), {"flush.ms": "9223372036854775807", "retention.ms": "9"}, "flush.ms is gone")
        same(alter((name, {"retention.ms": "1"}), (other, {"flush.ms": "5"}), (name, {"retention.ms": "2"}), ("unknown", {})), [42, 0, 42, 3], "twice")
        same((values(c, name, "retention.ms"), values(c, other, "flush.ms")), ({"retention.ms": "9"}, {"flush.ms": "5"}), "what holds")
        same(alter((other, {}), validate_only=True), [0], "validated")
        same(values(c, other, "flush.ms"), {"flush.ms": "5"}, "only validated")


@test("max.message.bytes takes effect at once")
def max_message_bytes():
    with client() as c:
        name = topic(c, "effect")
        same(c.produce(name, 0, batch([(None, b"x" * 3000)])).error_code, 0, "before")
        same(incremental(c, name, ("max.message.bytes", 0, "1000")).error_code, 0, "altered")
        same(c.produce(name, 0, batch([(None, b"x" * 3000)])).error_code, 10, "after")
        same(c.produce(name, 0, batch([(None, b"x")])).error_code, 0, "a small one")


@test("CreatePartitions: more, never fewer or the same; assignments; each topic has its own error")
def create_partitions():
    with client() as c:
        name = topic(c, "grows", 2)
        c.produce(name, 1, batch([(None, b"kept")]))
        def grow(*topics, version=3, **more):
            return [t.error_code for t in c.call("CreatePartitions", version, topics=[dict(zip(("name", "count", "assignments"), t)) for t in topics],
                                                 timeout_ms=9000, **more).results]
        for version, count in ((0, 3), (1, 4), (2, 5), (3, 6)):
            same(grow((name, count, None), version=version), [0], f"version {version}")
            same(len(c.call("Metadata", 12, topics=[{"name": name}]).topics[0].partitions), count, "partitions")
        same(grow((name, 6, None), ("unknown", 2, None), ("a b", 2, None)), [37, 3, 3], "the same number, no such topics")
        same(grow((name, 5, None)), [37], "fewer")
        same(grow((name, 9, None)), [37], "above --max-partitions")
        same(grow((name, 8, [{"broker_ids": [1]}])), [39], "too few assignments")
        same(grow((name, 8, [{"broker_ids": [1]}, {"broker_ids": [9]}])), [39], "an unknown broker")
        same(grow((name, 7, None), (name, 8, None)), [42, 42], "twice")
        same(grow((name, 8, None), validate_only=True), [0], "only validated")
        same(len(c.call("Metadata", 12, topics=[{"name": name}]).topics[0].partitions), 6, "nothing of it")
        same(grow((name, 8, [{"broker_ids": [1]}, {"broker_ids": [1, 2]}])), [0], "with owners")
        same(c.produce(name, 7, batch([(None, b"v")])).error_code, 0, "the last one is written")
        same(c.fetch(name, 1, 0).high_watermark, 1, "what was there is there")


@test("DeleteRecords: partitions begin later, at an offset or the end; refusals are the partition's own; a restart keeps it")
def delete_records():
    with client() as c:
        name = topic(c, "cut", 3)
        for p in range(3):
            for i in range(5):
                same(c.produce(name, p, batch([(None, b"%d" % i)])).error_code, 0, "produce")
        def cut(*parts, version=2, of=name):
            ps = [{"partition_index": p, "offset": o} for p, o in parts]
            return [(p.partition_index, p.low_watermark, p.error_code)
                    for p in c.call("DeleteRecords", version, topics=[{"name": of, "partitions": ps}], timeout_ms=9000).topics[0].partitions]
        for version in range(3):
            same(cut((0, version + 1), version=version), [(0, version + 1, 0)], f"version {version}")
        same(cut((0, 1), (1, -1), (2, 6), (2, -2), (3, 0), (-1, 0)),
             [(0, 3, 0), (1, 5, 0), (2, -1, 1), (2, -1, 1), (3, -1, 3), (-1, -1, 3)], "each by itself")
        same(cut((0, 0), of="unknown"), [(0, -1, 3)], "no such topic")
        same(c.fetch(name, 0, 2).error_code, 1, "below the start")
        same(c.fetch(name, 0, 3).log_start_offset, 3, "from the start")
        same(c.fetch(name, 2, 0).error_code, 0, "what was refused changed nothing")
        n.kill("storaged")
        same([(p, c.fetch(name, p, 5).log_start_offset) for p in (0, 1, 2)], [(0, 3), (1, 5), (2, 0)], "after a restart")


@test("OffsetForLeaderEpoch: the present epoch ends at the high watermark, a later one nowhere; epochs of the client are checked")
def epochs():
    with client() as c:
        name = topic(c, "epochs")
        c.produce(name, 0, batch([(None, b"a"), (None, b"b")]))
        def ends(epoch, version=4, current=-1, partition=0, of=name):
            p = c.call("OffsetForLeaderEpoch", version, topics=[{"topic": of, "partitions": [
                {"partition": partition, "current_leader_epoch": current, "leader_epoch": epoch}]}]).topics[0].partitions[0]
            return p.error_code, p.leader_epoch, p.end_offset
        epoch = c.call("Metadata", 12, topics=[{"name": name}]).topics[0].partitions[0].leader_epoch
        for version in (2, 3, 4):
            same(ends(epoch, version), (0, epoch, 2), f"version {version}")
        same(ends(epoch + 1), (0, -1, -1), "an epoch to come")
        same(ends(-1), (0, -1, -1), "none")
        same(ends(epoch, current=epoch), (0, epoch, 2), "the client knows the present one")
        same(ends(epoch, current=epoch + 1)[0], 75, "the client knows a newer one")
        same(ends(epoch, partition=1)[0], 3, "no such partition")
        same(ends(epoch, of="unknown")[0], 3, "no such topic")
        same(ends(epoch, version=1)[0], 35, "a version that is not served")


@test("DescribeCluster, ElectLeaders, ListPartitionReassignments, DescribeAcls")
def small_ones():
    with client() as c:
        a = c.call("DescribeCluster", 1, include_cluster_authorized_operations=True)
        same((a.error_code, a.controller_id, [(b.broker_id, b.host, b.port) for b in a.brokers]), (0, 1, [(1, "127.0.0.1", n.kafka_port)]), "brokers")
        same(a.cluster_id, c.call("Metadata", 12, topics=[]).cluster_id, "cluster id")
        assert a.cluster_authorized_operations > 0
        same(c.call("DescribeCluster", 0).cluster_authorized_operations, -2147483648, "operations were not asked for")
        same([c.call("DescribeCluster", 1, endpoint_type=t).error_code for t in (2, 9)], [114, 115], "kinds of endpoints")
        name = topic(c, "elected", 2)
        for version in range(3):
            rs = c.call("ElectLeaders", version, topic_partitions=[{"topic": name, "partitions": [0, 2]}, {"topic": "unknown", "partitions": [0]}])
            same([[(p.partition_id, p.error_code) for p in t.partition_result] for t in rs.replica_election_results],
                 [[(0, 84), (2, 3)], [(0, 3)]], f"elections {version}")
        a = c.call("ElectLeaders", 2, topic_partitions=None)
        same((a.error_code, a.replica_election_results), (0, []), "of all partitions none needs one")
        same(c.call("ElectLeaders", 2, election_type=5, topic_partitions=[]).error_code, 42, "no such election")
        a = c.call("ListPartitionReassignments", 0, topics=[{"name": name, "partition_indexes": [0]}])
        same((a.error_code, a.topics), (0, []), "no replica moves")
        for version in range(4):
            a = c.call("DescribeAcls", version, resource_type_filter=1, operation=1, permission_type=1)
            same((a.error_code, a.resources), (54, []), f"ACLs {version}")


@test("DescribeTopicPartitions: in order of name, from a cursor on, at most so many partitions")
def topic_partitions():
    with client() as c:
        names = [topic(c, f"dtp.{i}", 3) for i in range(4)]
        topic(c, "dtp-other")
        def ask(limit, cursor=None, of=names):
            a = c.call("DescribeTopicPartitions", 0, topics=[{"name": t} for t in of], response_partition_limit=limit,
                       cursor=cursor and {"topic_name": cursor[0], "partition_index": cursor[1]})
            rows = [(t.error_code, t.name, [p.partition_index for p in t.partitions]) for t in a.topics]
            same([x for t in a.topics for p in t.partitions for x in (p.eligible_leader_replicas, p.last_known_elr) if x != []], [],
                 "null in place of no replicas, which Java's Admin trips over")
            return rows, a.next_cursor and (a.next_cursor.topic_name, a.next_cursor.partition_index)
        same(ask(100, of=reversed(names)), ([(0, t, [0, 1, 2]) for t in names], None), "all, sorted")
        def walk(limit, **more):
            got, cursor, rounds = [], None, 0
            while rounds == 0 or cursor:
                rows, cursor = ask(limit, cursor, **more)
                assert sum(len(p) for _, _, p in rows) <= limit
                got += [(t, p) for code, t, ps in rows for p in ps]
                rounds += 1
                assert rounds < 500
            return got
        for limit in (1, 2, 3, 4, 5, 12):
            same(walk(limit), [(t, p) for t in names for p in range(3)], f"limit {limit}")
        everything = walk(2000, of=[])
        for limit in (1, 7):
            same(walk(limit, of=[]), everything, f"all topics, limit {limit}")
        assert [t for t, p in everything if t in names and p == 0] == names
        same(ask(9, of=["unknown", "dtp.0", "a b"])[0], [(17, "a b", []), (0, "dtp.0", [0, 1, 2]), (3, "unknown", [])], "errors")
        t = c.call("DescribeTopicPartitions", 0, topics=[{"name": "dtp.0"}], response_partition_limit=9).topics[0]
        same((t.topic_id, [(p.leader_id, p.replica_nodes, p.isr_nodes) for p in t.partitions]), (c.topic_id("dtp.0"), [(1, [1], [1])] * 3), "what is said")
        same([(p.eligible_leader_replicas, p.last_known_elr, p.offline_replicas) for p in t.partitions], [([], [], [])] * 3, "never null")
        same([t.error_code for t in c.call("DescribeTopicPartitions", 0, topics=[{"name": "dtp.0"}], response_partition_limit=0).topics], [42], "limit 0")


ADMIN = """
import json, sys
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewPartitions, NewTopic
admin = KafkaAdminClient(bootstrap_servers=sys.argv[1])
admin.create_topics([NewTopic("by-admin", 2, 1)])
admin.create_partitions({"by-admin": NewPartitions(4)})
resource = lambda **more: ConfigResource(ConfigResourceType.TOPIC, "by-admin", **more)
admin.alter_configs([resource(configs={"retention.ms": "1234"})])
rows = {row[0]: row[1] for row in admin.describe_configs([resource()])[0].resources[0][4]}
print(json.dumps([rows["retention.ms"], len(admin.describe_topics(["by-admin"])[0]["partitions"]),
                  [b["node_id"] for b in admin.describe_cluster()["brokers"]]]))
"""


@test("kafka-python's admin client: a topic made, grown, altered and described")
def kafka_python():
    r = subprocess.run(["/usr/bin/python3", "-c", ADMIN, f"127.0.0.1:{n.kafka_port}"], capture_output=True, text=True, timeout=100)
    same((r.returncode, r.stderr), (0, ""), "kafka-python")
    same(json.loads(r.stdout), ["1234", 4, [1]], "what it saw")


n.start()
run(lambda: n.stop())
