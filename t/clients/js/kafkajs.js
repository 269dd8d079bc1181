// SPDX-License-Identifier: Apache-2.0
//
// kafkajs as t/clients/README has it. It reads in groups only: `consume` is the only member of one of its own. It produces
// idempotently. Codecs but gzip are for its users to bring along.
"use strict";
const { Kafka, CompressionTypes, CompressionCodecs, ConfigResourceTypes, Partitioners, logLevel } = require("kafkajs");
const { read, show, say, assigned, terminated, stream, left, run } = require("./form.js");

const TYPES = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy,
	lz4: CompressionTypes.LZ4, zstd: CompressionTypes.ZSTD };

const snappy = require("snappy");
const lz4 = require("lz4-napi");
const zstd = require("@bokuweb/zstd-wasm");
const XERIAL = Buffer.from("82534e41505059", "hex");

// Java frames snappy blocks (magic, two versions, then length and block); others send one block.
async function unsnap(data) {
	if (!data.subarray(0, 7).equals(XERIAL))
		return snappy.uncompress(data);
	const blocks = [];
	for (let at = 16; at < data.length; at += 4 + data.readInt32BE(at))
		blocks.push(await snappy.uncompress(data.subarray(at + 4, at + 4 + data.readInt32BE(at))));
	return Buffer.concat(blocks);
}

async function bring() {
	await zstd.init();
	const both = (compress, decompress) => () => ({ compress: (encoder) => compress(encoder.buffer), decompress });
	CompressionCodecs[TYPES.snappy] = both(snappy.compress, unsnap);
	CompressionCodecs[TYPES.lz4] = both(lz4.compressFrame, lz4.decompressFrame);
	CompressionCodecs[TYPES.zstd] = both(async (data) => Buffer.from(zstd.compress(data)), async (data) => Buffer.from(zstd.decompress(data)));
}

// Two headers of one name are an array.
function headersOf(pairs) {
	const headers = {};
	for (const [name, value] of pairs)
		headers[name] = name in headers ? [].concat(headers[name], [value]) : value;
	return headers;
}

const pairsOf = (headers) => Object.entries(headers).flatMap(([name, value]) => [].concat(value).map((v) => [name, v]));
const client = (bootstrap) => new Kafka({ brokers: [bootstrap], logLevel: logLevel.NOTHING, retry: { retries: 12 } });
const showMessage = (partition, message) => show({ ...message, partition, headers: pairsOf(message.headers ?? {}) });

async function producer(bootstrap) {
	const p = client(bootstrap).producer({ idempotent: true, createPartitioner: Partitioners.DefaultPartitioner });
	await p.connect();
	return p;
}

async function produce(bootstrap, topic, codec) {
	await bring();
	const p = await producer(bootstrap);
	const messages = read().map((r) => ({ ...r, timestamp: r.timestamp || undefined, headers: headersOf(r.headers) }));
	await p.send({ topic, compression: TYPES[codec], messages });
	await p.disconnect();
}

async function begins(admin, topic, where) {
	const rows = await admin.fetchTopicOffsets(topic);
	const found = new Map(rows.map((r) => [r.partition, BigInt(where === "end" ? r.high : r.low)]));
	if (where !== "start" && where !== "end")
		for (const r of await admin.fetchTopicOffsetsByTimestamp(topic, Number(where)))
			found.set(r.partition, BigInt(r.offset));       // the end where nothing is that late
	return { begin: found, ends: new Map(rows.map((r) => [r.partition, BigInt(r.high)])) };
}

async function consume(bootstrap, topic, where, count) {
	await bring();
	const kafka = client(bootstrap), admin = kafka.admin();
	await admin.connect();
	const { begin, ends } = await begins(admin, topic, where);
	await admin.disconnect();
	const rest = left(ends, begin), consumer = kafka.consumer({ groupId: `${topic}-${where}-${process.pid}` });
	let seen = 0;
	if (!count && rest.isOver())
		return;
	await consumer.connect();
	await consumer.subscribe({ topic, fromBeginning: where !== "end" });
	await new Promise((done, fail) => {
		consumer.on(consumer.events.CRASH, (e) => fail(e.payload.error));
		consumer.run({ autoCommit: false, eachMessage: async ({ partition, message }) => {
			if (BigInt(message.offset) < begin.get(partition))
				return;
			showMessage(partition, message);
			rest.seen(partition, BigInt(message.offset) + 1n);
			if (count ? ++seen === Number(count) : rest.isOver())
				done();
		} }).catch(fail);
		for (const [partition, offset] of begin)
			consumer.seek({ topic, partition, offset: String(offset) });
	});
	await consumer.disconnect();
}

async function group(bootstrap, topic, groupId) {
	await bring();
	const consumer = client(bootstrap).consumer({ groupId, sessionTimeout: 6000, heartbeatInterval: 500, maxWaitTimeInMs: 200 });
	await consumer.connect();
	await consumer.subscribe({ topic, fromBeginning: true });
	consumer.on(consumer.events.GROUP_JOIN, (e) => assigned(e.payload.memberAssignment[topic] ?? []));
	await consumer.run({ autoCommit: false, eachMessage: async ({ partition, message }) => {
		showMessage(partition, message);
		await consumer.commitOffsets([{ topic, partition, offset: String(BigInt(message.offset) + 1n) }]);
	} });
	await terminated();
	await consumer.disconnect();
}

async function sends(bootstrap, topic, count) {
	const p = await producer(bootstrap);
	await stream(Number(count), (from, to) => p.send({ topic, messages: Array.from({ length: to - from }, (_, i) => ({
		partition: (from + i) % 4, value: String(from + i),
	})) }));
	await p.disconnect();
}

const STEPS = {
	async create(admin, topic) {
		await admin.createTopics({ topics: [{ topic, numPartitions: 2, configEntries: [{ name: "retention.ms", value: "3600000" }] }] });
		return "created";
	},
	async describe(admin, topic) {
		const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
		const { resources } = await admin.describeConfigs({ includeSynonyms: false, resources: [
			{ type: ConfigResourceTypes.TOPIC, name: topic, configNames: ["retention.ms"] },
		] });
		return `partitions ${topics[0].partitions.length} retention.ms ${resources[0].configEntries[0].configValue}`;
	},
	async alter(admin, topic) {
		await admin.alterConfigs({ resources: [
			{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries: [{ name: "retention.ms", value: "7200000" }] },
		] });
		return "altered";
	},
	async grow(admin, topic) {
		await admin.createPartitions({ topicPartitions: [{ topic, count: 3 }] });
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
	const a = client(bootstrap).admin();
	await a.connect();
	for (const what of steps)
		say(await STEPS[what](a, topic));
	await a.disconnect();
}

run({ produce, consume, group, stream: sends, admin });
