// SPDX-License-Identifier: Apache-2.0
// How vitest runs the published suite: the file beside this one and nothing that it would find by itself, however deep
// below node_modules the suite stands.
import { defineConfig } from "vitest/config"

export default defineConfig({
	test: {
		include: ["suite.run.mjs"],
		exclude: [],
		testTimeout: 30000,
		hookTimeout: 30000,
		reporters: ["json"],
		outputFile: process.env.DS_REPORT,
	},
})
