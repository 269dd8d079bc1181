// SPDX-License-Identifier: Apache-2.0
// The published suite against the node at DS_URL. Its long polls have to end before a test does.
import { describe } from "vitest"
import { runConformanceTests } from "@durable-streams/server-conformance-tests"

describe("durable streams", () => {
	runConformanceTests({
		baseUrl: process.env.DS_URL,
		longPollTimeoutMs: Number(process.env.DS_LONG_POLL_MS),
		subscriptions: process.env.DS_SUBSCRIPTIONS === "1",
	})
})
