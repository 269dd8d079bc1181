// SPDX-License-Identifier: Apache-2.0
//
// @platformatic/kafka as t/clients/README has it. It only produces: its consumer wants groups. It produces
// idempotently.
"use strict";
const { pathToFileURL } = require("url");
const { read } = require("./form.js");

const [, , what, bootstrap, topic, compression] = process.argv;

async function main() {
	if (what !== "produce")
		throw new Error("only produces");
	const { Producer } = await import(pathToFileURL(require.resolve("@platformatic/kafka")));
	const producer = new Producer({ clientId: "t", bootstrapBrokers: [bootstrap], idempotent: true, compression });
	const messages = read().map((r) => ({
		topic, partition: r.partition, key: r.key, value: r.value,
		headers: new Map(r.headers.map(([name, value]) => [Buffer.from(name), value])),
		...(r.timestamp && { timestamp: BigInt(r.timestamp) }),
	}));
	await producer.send({ messages });
	await producer.close();
}

main().catch((error) => {
	console.error(error);
	process.exit(1);
});
