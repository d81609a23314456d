import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

/** Browser tests: they live beside the other suites and drive Chromium against a real server. */
export default defineConfig({
  root: here("../tests/e2e"),
  cacheDir: here("./node_modules/.vite-e2e"),
  // The tests are outside this folder, so its packages are named for them.
  resolve: {
    alias: {
      "playwright-core": here("./node_modules/playwright-core/index.mjs"),
      vitest: here("./node_modules/vitest/dist/index.js"),
    },
  },
  test: {
    environment: "node",
    include: ["**/*.e2e.ts"],
    fileParallelism: false,
    testTimeout: 300_000,
    hookTimeout: 300_000,
    // A busy machine is slow, not wrong.
    expect: { poll: { timeout: 120_000 } },
  },
});
