/**
 * Times the runs table in Chromium: 10,000 runs by 200 columns, from the start of the navigation to the frame
 * in which every visible cell is painted. The server is warm, the browser has been on the page once.
 *
 *   node bench/ui/table.mjs [--runs 10000] [--home FOLDER] [--rounds 9] [--json FILE] [--steps]
 *
 * With --home the filled server is kept and used again. Needs `make web` and Debian's Chromium.
 */
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

import { chromium } from "../../frontend/node_modules/playwright-core/index.mjs";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const PYTHON = process.env.YARD_PYTHON ?? join(ROOT, ".venv", "bin", "python");
const METRICS = 100;
const PARAMS = 90;
const TAGS = 10;
const WRITERS = 8;
/** Milliseconds for which a page is not looked at. */
const QUIET = 1500;

const { values: options } = parseArgs({
  options: {
    runs: { type: "string", default: "10000" },
    home: { type: "string" },
    rounds: { type: "string", default: "9" },
    json: { type: "string" },
    steps: { type: "boolean", default: false },
  },
});

/** Start a server and wait until it says where it is. */
async function startServer(home) {
  const words = ["-m", "trackyard.cli.main", "up", "--home", home, "--port", "0"];
  const server = spawn(PYTHON, words, { stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, PYTHONPATH: process.env.PYTHONPATH ?? join(ROOT, "src") } });
  let seen = "";
  const url = await new Promise((resolve, reject) => {
    const hear = (piece) => {
      seen += piece.toString();
      const found = /ready at (\S+)/.exec(seen);
      if (found !== null) {
        resolve(found[1]);
      }
    };
    server.stdout.on("data", hear);
    server.stderr.on("data", hear);
    server.on("exit", (code) => reject(new Error(`the server ended with ${code}: ${seen.slice(-800)}`)));
  });
  return { server, url, token: readFileSync(join(home, "token"), "utf8").trim() };
}

function caller(url, token) {
  return async (method, path, body) => {
    const answer = await fetch(url + path, {
      method,
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    if (!answer.ok) {
      throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    }
    return answer.json();
  };
}

const named = (word, many) => Array.from({ length: many }, (_, at) => `${word}_${String(at).padStart(3, "0")}`);
const COLUMNS = { metrics: named("metric", METRICS), params: named("param", PARAMS), tags: named("tag", TAGS) };

/** The experiment with its runs; made where it is not there yet. */
async function fill(call, runs) {
  const name = `wide-${runs}`;
  const { experiments } = await call("GET", "/api/v1/experiments");
  const known = experiments.find((one) => one.name === name);
  const id = known?.experiment_id ?? (await call("POST", "/api/2.0/mlflow/experiments/create", { name })).experiment_id;
  let next = known?.runs ?? 0;
  const writer = async () => {
    for (let at = next++; at < runs; at = next++) {
      const time = 1_780_000_000_000 + at * 60_000;
      const { run } = await call("POST", "/api/2.0/mlflow/runs/create", { experiment_id: id, run_name: `run-${at}`, start_time: time });
      await call("POST", "/api/2.0/mlflow/runs/log-batch", {
        run_id: run.info.run_id,
        metrics: COLUMNS.metrics.map((key, place) => ({ key, value: Math.sin(at + place) * 100, step: 1, timestamp: time })),
        params: COLUMNS.params.map((key, place) => ({ key, value: `${(at * 7 + place) % 97}e-3` })),
        tags: COLUMNS.tags.map((key, place) => ({ key, value: `word-${(at + place) % 13}` })),
      });
      await call("POST", "/api/2.0/mlflow/runs/update", { run_id: run.info.run_id, status: "FINISHED", end_time: time + 30_000 });
    }
  };
  await Promise.all(Array.from({ length: WRITERS }, writer));
  return id;
}

/** Runs in the page before its own scripts: notes when rows stand there, and when no cell on screen waits any more. */
function watch() {
  const seen = {};
  window.__seen = seen;
  const afterPaint = (act) =>
    requestAnimationFrame(() => {
      const channel = new MessageChannel();
      channel.port1.onmessage = act;
      channel.port2.postMessage(null);
    });
  const onScreen = (element) => {
    const box = element.getBoundingClientRect();
    return box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
  };
  const note = (word) => {
    if (seen[word] === undefined) {
      seen[word] = -1;
      afterPaint(() => (seen[word] = performance.now()));
    }
  };
  const look = () => {
    if (document.querySelector(".rail") !== null) {
      note("frame");
    }
    const rows = [...document.querySelectorAll(".grid-body .grid-row")].filter(onScreen);
    if (rows.length > 5) {
      note("rows");
      const cells = rows.flatMap((row) => [...row.querySelectorAll(".grid-td")].filter(onScreen));
      const grid = document.querySelector("[role=grid]");
      seen.cellsOnScreen = cells.length;
      // A cell that waits has no text; a curve has an svg or a canvas.
      const isFilled = (cell) => cell.textContent !== "" || cell.querySelector("svg, canvas") !== null;
      const across = Math.max(...cells.map((cell) => cell.getBoundingClientRect().right), 0);
      if (cells.length > 0 && cells.every(isFilled) && across >= grid.getBoundingClientRect().right - 20) {
        note("cells");
      }
      if (Number(grid.getAttribute("aria-rowcount")) > 5000) {
        note("allRows");
      }
    }
    if (seen.cells === undefined || seen.allRows === undefined) {
      requestAnimationFrame(look);
    }
  };
  requestAnimationFrame(look);
}

const middle = (list) => list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)];
const rounded = (list) => list.map((value) => Math.round(value));

async function time(context, address, rounds, steps) {
  const found = { frame: [], rows: [], cells: [], allRows: [] };
  let asked = [];
  let screen = 0;
  for (let round = -2; round < rounds; round += 1) {
    const page = await context.newPage();
    await page.addInitScript(watch);
    await page.goto(address, { waitUntil: "commit" });
    // Asking the page whether it is done would take time from it, so it is left alone for a while.
    await page.waitForTimeout(QUIET);
    await page.waitForFunction(() => window.__seen.cells > 0 && window.__seen.allRows > 0, null, { timeout: 60_000 });
    const seen = await page.evaluate(() => window.__seen);
    screen = seen.cellsOnScreen;
    if (round >= 0) {
      Object.keys(found).forEach((word) => found[word].push(seen[word]));
    }
    asked = await page.evaluate(() =>
      performance.getEntriesByType("resource").map((one) => ({
        name: one.name.replace(location.origin, "").slice(0, 60),
        from: Math.round(one.startTime),
        first: Math.round(one.responseStart),
        to: Math.round(one.responseEnd),
        bytes: one.transferSize,
      })),
    );
    await page.close();
  }
  if (steps) {
    console.table(asked);
  }
  return { cells_on_screen: screen, ...Object.fromEntries(Object.entries(found).map(([word, list]) => [word, { middle: Math.round(middle(list)), greatest: Math.round(Math.max(...list)), all: rounded(list) }])) };
}

/** How evenly it scrolls: the time between frames while the wheel turns. */
async function scroll(context, address) {
  const page = await context.newPage();
  await page.goto(address);
  await page.locator(".grid-row").first().waitFor();
  await page.waitForTimeout(1500);
  const gaps = await page.evaluate(async () => {
    const grid = document.querySelector("[role=grid]");
    const found = [];
    let last = performance.now();
    for (let step = 0; step < 120; step += 1) {
      grid.scrollTop += 120;
      grid.scrollLeft += step % 2 === 0 ? 40 : 0;
      await new Promise((resolve) => requestAnimationFrame(resolve));
      const now = performance.now();
      found.push(now - last);
      last = now;
    }
    return found.slice(5);
  });
  await page.close();
  const sorted = gaps.toSorted((a, b) => a - b);
  return { middle: Math.round(middle(gaps)), p95: Math.round(sorted[Math.floor(sorted.length * 0.95)]), greatest: Math.round(sorted.at(-1)) };
}

async function main() {
  const home = options.home ?? mkdtempSync(join(tmpdir(), "yard-bench-ui-"));
  const runs = Number(options.runs);
  const rounds = Number(options.rounds);
  const { server, url, token } = await startServer(home);
  const profile = mkdtempSync(join(tmpdir(), "yard-bench-browser-"));
  let browser = null;
  try {
    const id = await fill(caller(url, token), runs);
    const path = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find((name) => existsSync(name));
    // A profile on disk, as people have one: files and compiled scripts are kept between visits.
    const context = await chromium.launchPersistentContext(profile, {
      executablePath: path,
      args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"],
      viewport: { width: 1440, height: 900 },
    });
    browser = context;
    await context.request.post(`${url}/api/v1/session`, { data: { token } });
    const columns = ["attribute:status", "attribute:duration", ...COLUMNS.metrics.map((key) => `metric:${key}`), ...COLUMNS.params.map((key) => `param:${key}`), ...COLUMNS.tags.map((key) => `tag:${key}`)];
    const wide = `${url}/app/runs?exp=${id}&pane=table&cols=${encodeURIComponent(columns.join(","))}`;
    const before = loadavg()[0];
    const figures = {
      runs,
      columns: columns.length,
      load_before: Number(before.toFixed(2)),
      table: await time(context, wide, rounds, options.steps),
      table_and_charts: await time(context, `${url}/app/runs?exp=${id}`, rounds, options.steps),
      scroll_frame_ms: await scroll(context, wide),
    };
    console.log(JSON.stringify(figures, null, 1).replace(/\n\s+(?=[\d\]])/g, " "));
    if (options.json !== undefined) {
      writeFileSync(options.json, `${JSON.stringify(figures, null, 1)}\n`);
    }
  } finally {
    await browser?.close();
    server.kill("SIGTERM");
    await new Promise((resolve) => server.once("exit", resolve));
    rmSync(profile, { recursive: true, force: true });
    if (options.home === undefined) {
      rmSync(home, { recursive: true, force: true });
    }
  }
}

await main();
