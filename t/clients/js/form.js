// SPDX-License-Identifier: Apache-2.0
//
// Lines of t/lib/kafka_form.py for the clients in JavaScript, and what their programs share.
"use strict";
const fs = require("fs");

const toBytes = (text) => (text === "-" ? null : Buffer.from(text.slice(1), "hex"));
const toText = (data) => (data === null || data === undefined ? "-" : ":" + Buffer.from(data).toString("hex"));

function fromLine(line) {
	const [partition, , timestamp, key, value, ...headers] = line.split(" ");
	return {
		partition: Number(partition),
		timestamp: timestamp === "-" ? null : timestamp,
		key: toBytes(key),
		value: toBytes(value),
		headers: headers.map((h) => [h.slice(0, h.indexOf("=")), toBytes(h.slice(h.indexOf("=") + 1))]),
	};
}

// All records of the standard input.
exports.read = () => fs.readFileSync(0, "latin1").split("\n").filter((line) => line).map(fromLine);

// headers: [name, value] pairs. Written at once, as Python reads it.
exports.show = ({ partition, offset, timestamp, key, value, headers }) => fs.writeSync(1, [partition, offset, timestamp, toText(key),
	toText(value), ...headers.map(([name, data]) => `${name}=${toText(data)}`)].join(" ") + "\n");
exports.say = (...words) => fs.writeSync(1, words.join(" ") + "\n");
exports.assigned = (partitions) => exports.say("=", ...[...partitions].sort((a, b) => a - b));
exports.pause = (ms) => new Promise((done) => setTimeout(done, ms));

// Until SIGTERM.
exports.terminated = () => new Promise((done) => process.once("SIGTERM", done));

// Sends `count` numbered records, ten at a time with send(from, to), and tells how many are acknowledged.
exports.stream = async (count, send) => {
	for (let at = 0; at < count; at += 10) {
		await send(at, Math.min(at + 10, count));
		exports.say("+", at + 10);
		await exports.pause(30);
	}
};

// Tells when every partition has come to where it ended; ends: a Map of partition to offset (BigInt).
exports.left = (ends, begin) => {
	const open = new Set([...ends.keys()].filter((p) => ends.get(p) > begin.get(p)));
	return { seen: (partition, next) => next >= ends.get(partition) && open.delete(partition), isOver: () => open.size === 0 };
};

exports.run = (programs) => {
	const [, , what, ...args] = process.argv;
	programs[what](...args).then(() => process.exit(0), (error) => {
		console.error(error);
		process.exit(1);
	});
};
