// SPDX-License-Identifier: Apache-2.0
//
// @confluentinc/kafka-javascript (librdkafka) as t/clients/README has it, by its own calls, not those that look like kafkajs'. It
// produces idempotently.
"use strict";
const { promisify } = require("util");
const { Producer, KafkaConsumer, AdminClient, CODES } = require("@confluentinc/kafka-javascript");
const { read, show, say, assigned, pause, terminated, left, run } = require("./form.js");

const call = (object, name, ...args) => promisify(object[name]).call(object, ...args);
const connected = (client) => new Promise((done, fail) => client.connect({}, (error) => (error ? fail(error) : done(client))));
const ended = (client) => new Promise((done) => client.disconnect(done));

// Sends each of records, `ms` apart, and waits for the acknowledgement of all.
async function send(bootstrap, topic, records, { ms = 0, acked = () => {}, ...conf }) {
	const p = await connected(new Producer({ "bootstrap.servers": bootstrap, "enable.idempotence": true, "message.timeout.ms": 60000,
		dr_cb: true, ...conf }));
	let left = records.length;
	const all = new Promise((done, fail) => p.on("delivery-report", (error) => {
		if (error)
			return fail(error);
		acked(records.length - --left);
		if (left === 0)
			done();
	}));
	p.setPollInterval(10);
	for (const r of records) {
		p.produce(topic, r.partition, r.value, r.key, r.timestamp && Number(r.timestamp), null, r.headers.map(([k, v]) => ({ [k]: v })));
		if (ms)
			await pause(ms);
	}
	await all;
	await ended(p);
}

async function produce(bootstrap, topic, codec) {
	await send(bootstrap, topic, read(), { "compression.codec": codec, "linger.ms": 200 });
}

async function sends(bootstrap, topic, count) {
	const rows = Array.from({ length: Number(count) }, (_, i) => ({ partition: i % 4, value: Buffer.from(String(i)), key: null, headers: [] }));
	await send(bootstrap, topic, rows, { ms: 3, "linger.ms": 5, acked: (n) => n % 20 === 0 && say("+", n) });
}

const showMessage = (m) => show({ ...m, headers: (m.headers ?? []).flatMap((h) => Object.entries(h)) });

async function partitionsOf(client, topic) {
	const meta = await call(client, "getMetadata", { topic, timeout: 30000 });
	return meta.topics.find((t) => t.name === topic).partitions.map((p) => p.id);
}

async function consume(bootstrap, topic, where, count) {
	const c = await connected(new KafkaConsumer({ "bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": false,
		"check.crcs": true }, { "auto.offset.reset": "error" }));
	const parts = await partitionsOf(c, topic), begin = new Map(), ends = new Map();
	for (const p of parts) {
		const { lowOffset, highOffset } = await call(c, "queryWatermarkOffsets", topic, p, 30000);
		begin.set(p, where === "end" ? highOffset : lowOffset);
		ends.set(p, highOffset);
	}
	if (where !== "start" && where !== "end")
		for (const t of await call(c, "offsetsForTimes", parts.map((partition) => ({ topic, partition, offset: Number(where) })), 30000))
			begin.set(t.partition, t.offset < 0 ? ends.get(t.partition) : t.offset);
	const rest = left(ends, begin);
	let seen = 0;
	c.assign(parts.map((partition) => ({ topic, partition, offset: begin.get(partition) })));
	await new Promise((done, fail) => {
		if (!count && rest.isOver())
			return done();
		c.on("event.error", fail);
		c.on("data", (m) => {
			showMessage(m);
			rest.seen(m.partition, m.offset + 1);
			if (count ? ++seen === Number(count) : rest.isOver())
				done();
		});
		c.consume();
	});
	await ended(c);
}

async function group(bootstrap, topic, groupId, instance) {
	const c = new KafkaConsumer({ "bootstrap.servers": bootstrap, "group.id": groupId, "enable.auto.commit": false,
		"session.timeout.ms": 6000, "heartbeat.interval.ms": 500, rebalance_cb: true, ...(instance && { "group.instance.id": instance }),
	}, { "auto.offset.reset": "earliest" });
	c.on("rebalance", (error, parts) => error.code === CODES.ERRORS.ERR__ASSIGN_PARTITIONS && assigned(parts.map((p) => p.partition)));
	await connected(c);
	c.subscribe([topic]);
	c.on("data", (m) => {
		showMessage(m);
		try {
			c.commitMessageSync(m);
		} catch (error) {               // it is somebody else's by now
			console.error(error.message);
		}
	});
	c.consume();
	await terminated();
	await ended(c);
}

const STEPS = {
	async create(admin, topic) {
		await call(admin, "createTopic", { topic, num_partitions: 2, replication_factor: 1, config: { "retention.ms": "3600000" } }, 30000);
		return "created";
	},
	async describe(admin, topic) {
		const [{ partitions }] = await call(admin, "describeTopics", [topic], { timeout: 30000 });
		return `partitions ${partitions.length}`;
	},
	async grow(admin, topic) {
		await call(admin, "createPartitions", topic, 3, 30000);
		return "grown";
	},
	async list(admin, topic) {
		return "listed " + ((await call(admin, "listTopics", { timeout: 30000 })).includes(topic) ? "yes" : "no");
	},
	async delete(admin, topic) {
		await call(admin, "deleteTopic", topic, 30000);
		return "deleted";
	},
};

async function admin(bootstrap, topic, ...steps) {
	const a = AdminClient.create({ "bootstrap.servers": bootstrap });
	for (const what of steps)
		say(await STEPS[what](a, topic));
	a.disconnect();
}

run({ produce, consume, group, stream: sends, admin });
