// SPDX-License-Identifier: Apache-2.0
//
// @platformatic/kafka as t/clients/README has it. It reads in groups only: `consume` is the only member of one of its own. It
// produces idempotently.
"use strict";
const { pathToFileURL } = require("url");
const { read, show, say, assigned, terminated, stream, left, run } = require("./form.js");

const TOPIC = 2, SET = 0;               // Kafka's numbers of a resource and of an operation
const library = import(pathToFileURL(require.resolve("@platformatic/kafka")));

const showMessage = (m) => show({ ...m, key: m.key, value: m.value, partition: m.partition, offset: m.offset, timestamp: m.timestamp,
	headers: [...m.headers].map(([name, value]) => [name.toString(), value]) });

async function producer(bootstrap, more = {}) {
	const { Producer } = await library;
	return new Producer({ clientId: "t", bootstrapBrokers: [bootstrap], idempotent: true, retries: 20, ...more });
}

async function produce(bootstrap, topic, compression) {
	const p = await producer(bootstrap, { compression });
	const messages = read().map((r) => ({
		topic, partition: r.partition, key: r.key, value: r.value,
		headers: new Map(r.headers.map(([name, value]) => [Buffer.from(name), value])),
		...(r.timestamp && { timestamp: BigInt(r.timestamp) }),
	}));
	await p.send({ messages });
	await p.close();
}

async function member(bootstrap, groupId, more = {}) {
	const { Consumer } = await library;
	return new Consumer({ clientId: "t", bootstrapBrokers: [bootstrap], groupId, sessionTimeout: 6000, heartbeatInterval: 500,
		maxWaitTime: 200, retries: 20, ...more });
}

const byPartition = (offsets) => new Map(offsets.map((offset, partition) => [partition, offset]));

async function begins(consumer, topic, where) {
	const at = async (timestamp) => byPartition((await consumer.listOffsets({ topics: [topic], timestamp })).get(topic));
	const ends = await at(-1n);
	if (where === "start" || where === "end")
		return { begin: where === "start" ? await at(-2n) : ends, ends };
	const begin = await at(BigInt(where));
	for (const [partition, offset] of begin)
		if (offset < 0n)
			begin.set(partition, ends.get(partition));      // nothing is that late
	return { begin, ends };
}

async function consume(bootstrap, topic, where, count) {
	const consumer = await member(bootstrap, `${topic}-${where}-${process.pid}`);
	const { begin, ends } = await begins(consumer, topic, where);
	const rest = left(ends, begin);
	let seen = 0;
	if (!count && rest.isOver())
		return consumer.close(true);
	const messages = await consumer.consume({ topics: [topic], autocommit: false, mode: "manual",
		offsets: [...begin].map(([partition, offset]) => ({ topic, partition, offset })) });
	for await (const m of messages) {
		showMessage(m);
		rest.seen(m.partition, m.offset + 1n);
		if (count ? ++seen === Number(count) : rest.isOver())
			break;
	}
	await consumer.close(true);
}

async function group(bootstrap, topic, groupId, groupInstanceId) {
	const consumer = await member(bootstrap, groupId, groupInstanceId ? { groupInstanceId } : {});
	consumer.on("consumer:group:join", (e) => assigned((e.assignments ?? []).flatMap((a) => a.partitions)));
	const messages = await consumer.consume({ topics: [topic], autocommit: false, mode: "committed", fallbackMode: "earliest" });
	const ended = terminated().then(() => consumer.close(true));
	for await (const m of messages) {
		showMessage(m);
		await m.commit();
	}
	await ended;
}

async function sends(bootstrap, topic, count) {
	const p = await producer(bootstrap);
	await stream(Number(count), (from, to) => p.send({ messages: Array.from({ length: to - from }, (_, i) => ({
		topic, partition: (from + i) % 4, value: Buffer.from(String(from + i)),
	})) }));
	await p.close();
}

const resource = (topic, configs) => ({ resourceType: TOPIC, resourceName: topic, configs });
const STEPS = {
	async create(admin, topic) {
		await admin.createTopics({ topics: [topic], partitions: 2, replicas: 1, configs: [{ name: "retention.ms", value: "3600000" }] });
		return "created";
	},
	async describe(admin, topic) {
		const meta = await admin.metadata({ topics: [topic], forceUpdate: true });
		const [{ configs }] = await admin.describeConfigs({ resources: [
			{ resourceType: TOPIC, resourceName: topic, configurationKeys: ["retention.ms"] },
		] });
		return `partitions ${meta.topics.get(topic).partitionsCount} retention.ms ${configs[0].value}`;
	},
	async alter(admin, topic) {
		await admin.incrementalAlterConfigs({ resources: [
			resource(topic, [{ name: "retention.ms", configOperation: SET, value: "7200000" }]),
		] });
		return "altered";
	},
	async grow(admin, topic) {
		await admin.createPartitions({ topics: [{ name: topic, count: 3, assignments: null }] });
		return "grown";
	},
	async list(admin, topic) {
		return "listed " + ((await admin.listTopics()).includes(topic) ? "yes" : "no");
	},
	async delete(admin, topic) {
		await admin.deleteTopics({ topics: [topic] });
		return "deleted";
	},
};

async function admin(bootstrap, topic, ...steps) {
	const { Admin } = await library;
	const a = new Admin({ clientId: "t", bootstrapBrokers: [bootstrap] });
	for (const what of steps)
		say(await STEPS[what](a, topic));
	await a.close();
}

run({ produce, consume, group, stream: sends, admin });
