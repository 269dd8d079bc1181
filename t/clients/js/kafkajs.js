// SPDX-License-Identifier: Apache-2.0
//
// kafkajs as t/clients/README has it. It only produces: its consumer wants groups. It produces idempotently. Codecs but
// gzip are for its users to bring along.
"use strict";
const { Kafka, CompressionTypes, CompressionCodecs, Partitioners, logLevel } = require("kafkajs");
const { read } = require("./form.js");

const [, , what, bootstrap, topic, codec] = process.argv;
const TYPES = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy,
	lz4: CompressionTypes.LZ4, zstd: CompressionTypes.ZSTD };
const never = () => { throw new Error("only produces"); };

async function bring(codec) {
	let compress;
	if (codec === "snappy")
		compress = require("snappy").compress;
	else if (codec === "lz4")
		compress = require("lz4-napi").compressFrame;
	else if (codec === "zstd") {
		const zstd = require("@bokuweb/zstd-wasm");
		await zstd.init();
		compress = async (data) => Buffer.from(zstd.compress(data));
	} else
		return;
	const both = { compress: (encoder) => compress(encoder.buffer), decompress: never };
	CompressionCodecs[TYPES[codec]] = () => both;
}

// Two headers of one name are an array.
function headersOf(pairs) {
	const headers = {};
	for (const [name, value] of pairs)
		headers[name] = name in headers ? [].concat(headers[name], [value]) : value;
	return headers;
}

async function main() {
	if (what !== "produce")
		never();
	await bring(codec);
	const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.ERROR });
	const producer = kafka.producer({ idempotent: true, createPartitioner: Partitioners.DefaultPartitioner });
	await producer.connect();
	const messages = read().map((r) => ({
		...r, timestamp: r.timestamp || undefined, headers: headersOf(r.headers),
	}));
	await producer.send({ topic, compression: TYPES[codec], messages });
	await producer.disconnect();
}

main().catch((error) => {
	console.error(error);
	process.exit(1);
});
