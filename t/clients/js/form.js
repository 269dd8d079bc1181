// SPDX-License-Identifier: Apache-2.0
//
// Lines of t/lib/kafka_form.py for the clients in JavaScript.
"use strict";
const fs = require("fs");

const toBytes = (text) => (text === "-" ? null : Buffer.from(text.slice(1), "hex"));

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
