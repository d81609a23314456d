/** A real server with the demo project, and a browser signed in to it. Owns both processes. */
import { execFile, spawn, type ChildProcess } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { chromium, type Browser, type BrowserContext, type Page } from "playwright-core";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const VENV = join(ROOT, ".venv", "bin", "python");
export const PYTHON = process.env.YARD_PYTHON ?? (existsSync(VENV) ? VENV : "python3");
const FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** The first browser of Chromium's family on this machine. */
function browserPath(): string {
  const names = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
  const found = names.find((name) => existsSync(name));
  if (found === undefined) {
    throw new Error("the browser tests need Chromium: apt install chromium");
  }
  return found;
}

export class Yard {
  readonly home = mkdtempSync(join(tmpdir(), "yard-e2e-"));
  private server: ChildProcess | null = null;
  private browser: Browser | null = null;
  /** the one-time address that the server prints */
  signInAddress = "";
  url = "";
  token = "";
  /** what any page asked for that is not of our own origin, and what it complained of */
  readonly foreign: string[] = [];
  readonly complaints: string[] = [];

  /** Start the server, log a part of the demo project to it (none at 0), start the browser. */
  async start(scale: number, ...flags: string[]): Promise<void> {
    await this.startServer(0, ...flags);
    if (scale > 0) {
      await this.command("demo", "--scale", String(scale));
    }
    this.browser = await chromium.launch({ executablePath: browserPath(), args: FLAGS });
  }

  /** Start the server on a port, with further flags of `yard up`; 0 takes a free port. */
  async startServer(port: number, ...flags: string[]): Promise<void> {
    const words = ["-m", "trackyard.cli.main", "up", "--home", this.home, "--port", String(port), ...flags];
    const server = spawn(PYTHON, words, { stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, PYTHONPATH: join(ROOT, "src") } });
    this.server = server;
    const printed = await new Promise<string>((resolve, reject) => {
      let seen = "";
      const hear = (piece: Buffer): void => {
        seen += piece.toString();
        if (/signin#code=\S+/.test(seen)) {
          resolve(seen);
        }
      };
      server.stdout.on("data", hear);
      server.stderr.on("data", hear);
      server.on("exit", (code) => reject(new Error(`the server ended with ${code}: ${seen.slice(-1500)}`)));
    });
    this.url = /ready at (\S+)/.exec(printed)?.[1] ?? "";
    this.signInAddress = /(http\S+signin#code=\S+)/.exec(printed)?.[1] ?? "";
    this.token = readFileSync(join(this.home, "token"), "utf8").trim();
  }

  /** End the server, as a crash or an update would. */
  async stopServer(): Promise<void> {
    const server = this.server;
    this.server = null;
    if (server !== null && server.exitCode === null) {
      const ended = new Promise((resolve) => server.once("exit", resolve));
      server.kill("SIGTERM");
      await ended;
    }
  }

  /** Run a `yard` command against the server. */
  async command(...words: string[]): Promise<string> {
    const env = { ...process.env, YARD_URL: this.url, YARD_TOKEN: this.token, PYTHONPATH: join(ROOT, "src") };
    return (await promisify(execFile)(PYTHON, ["-m", "trackyard.cli.main", ...words], { env })).stdout;
  }

  /** Make someone a member of a team, new or not, and return a token of theirs. */
  async member(user: string, team: string): Promise<string> {
    if (team !== "default") {
      await this.command("team", "add", team);
    }
    await this.command("user", "add", user, "--team", team);
    return (JSON.parse(await this.command("token", "create", "--user", user, "--team", team, "--json")) as { token: string }).token;
  }

  /** Call the API with the admin's token, or another's. */
  async call<T>(method: string, path: string, body?: unknown, token = this.token): Promise<T> {
    const init: RequestInit = { method, headers: { authorization: `Bearer ${token}`, "content-type": "application/json" } };
    if (body !== undefined) {
      init.body = JSON.stringify(body);
    }
    const answer = await fetch(this.url + path, init);
    if (!answer.ok) {
      throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
    }
    return (await answer.json()) as T;
  }

  /** The id of an experiment by its name. */
  async experiment(name: string): Promise<string> {
    const { experiments } = await this.call<{ experiments: { experiment_id: string; name: string }[] }>("GET", "/api/v1/experiments");
    return experiments.find((one) => one.name === name)?.experiment_id ?? "";
  }

  /** The ids of an experiment's runs that meet a filter, the latest first. */
  async runs(experiment: string, filter = ""): Promise<string[]> {
    const wish = { experiment_ids: [experiment], filter, order_by: ["attributes.start_time DESC"], limit: 1000 };
    return (await this.call<{ run_id: string[] }>("POST", "/api/v1/runs/table", wish)).run_id;
  }

  /** A fresh browser profile. */
  async context(options: { width?: number; height?: number; dark?: boolean; signedIn?: boolean } = {}): Promise<BrowserContext> {
    if (this.browser === null) {
      throw new Error("the browser is not running");
    }
    const context = await this.browser.newContext({
      viewport: { width: options.width ?? 1280, height: options.height ?? 800 },
      colorScheme: options.dark === true ? "dark" : "light",
      acceptDownloads: true,
    });
    context.setDefaultTimeout(120_000);
    context.on("request", (request) => {
      if (!request.url().startsWith(this.url) && !/^(blob|data):/.test(request.url())) {
        this.foreign.push(request.url());
      }
    });
    context.on("console", (message) => {
      if (message.type() === "error" && !/Failed to load resource|ERR_CONNECTION_REFUSED/.test(message.text())) {
        this.complaints.push(message.text());
      }
    });
    context.on("weberror", (fault) => this.complaints.push(String(fault.error())));
    if (options.signedIn !== false) {
      await context.request.post(`${this.url}/api/v1/session`, { data: { token: this.token } });
    }
    return context;
  }

  /** A page of ours in a fresh profile. */
  async open(path: string, options: Parameters<Yard["context"]>[0] = {}): Promise<Page> {
    const page = await (await this.context(options)).newPage();
    await page.goto(this.url + path);
    return page;
  }

  /** End every job: they outlive the server, as they should, but not the test. */
  private async stopJobs(): Promise<void> {
    const open = async (): Promise<string[]> => {
      const { jobs } = await this.call<{ jobs: { job_id: string; state: string }[] }>("GET", "/api/v1/jobs?all=1&limit=500");
      return jobs.filter((job) => ["queued", "starting", "running"].includes(job.state)).map((job) => job.job_id);
    };
    for (let look = 0; this.server !== null && look < 900; look += 1) {
      const left = await open();
      if (left.length === 0) {
        return;
      }
      await Promise.all(left.map(async (job) => this.call("POST", `/api/v1/jobs/${job}/stop`, { grace_seconds: 0 }).catch(() => null)));
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  }

  /** End everything that was started. */
  async stop(): Promise<void> {
    await this.browser?.close();
    await this.stopJobs();
    await this.stopServer();
    rmSync(this.home, { recursive: true, force: true });
  }
}
