/** Calls the server: session cookie, CSRF, team, and faults that say what to do. Knows no page. */

/** Where the server is mounted: empty, or a prefix such as /trackyard. */
export const BASE = baseOf(import.meta.url);

function baseOf(address: string): string {
  const path = new URL(address).pathname;
  const at = path.lastIndexOf("/assets/");
  return at > 0 ? path.slice(0, at) : "";
}

/** A fault the server, or the way to it, answered with. */
export class Fault extends Error {
  readonly status: number;
  readonly code: string;
  /** what the server adds for programs to read */
  readonly details: Readonly<Record<string, unknown>>;

  constructor(status: number, code: string, message: string, details: Readonly<Record<string, unknown>> = {}) {
    super(message);
    this.name = "Fault";
    this.status = status;
    this.code = code;
    this.details = details;
  }

  /** Whether trying again by itself may help. */
  get passing(): boolean {
    return this.status === 0 || this.status >= 500 || this.status === 429;
  }
}

let csrf: string | null = null;
let team: string | null = null;
let signedOut: () => void = () => undefined;

/** Hold what the session gave, for the calls that follow. */
export function holdSession(next: { csrf: string | null; team: string | null }): void {
  csrf = next.csrf;
  team = next.team;
}

/** The team that calls are made for. */
export function currentTeam(): string | null {
  return team;
}

/** Say what to do when the session has ended. */
export function onSignedOut(handler: () => void): void {
  signedOut = handler;
}

/** Answers that were asked for ahead, by address; nothing where the server refused. */
const asked = new Map<string, Promise<string | null>>();
/** Those of them that are here. */
const arrived = new Map<string, string>();
/** Milliseconds after which an answer that nobody took is out of date. */
const KEPT = 10_000;

/** Ask before the page that needs it is here: its first call for the same address takes this answer. */
export function ask(path: string, query?: Call["query"]): Promise<string | null> {
  const key = address(path, query);
  const answer = send(path, { query }).then(
    (response) => (response.ok ? response.text() : null),
    () => null,
  );
  asked.set(key, answer);
  void answer.then((text) => text !== null && asked.has(key) && arrived.set(key, text));
  setTimeout(() => forget(key), KEPT);
  return answer;
}

function forget(key: string): void {
  asked.delete(key);
  arrived.delete(key);
}

/** Take an answer that was asked for ahead, if it is here: a page can then be drawn with it at once. */
export function taken(path: string, query?: Call["query"]): string | null {
  const key = address(path, query);
  const text = arrived.get(key) ?? null;
  if (text !== null) {
    forget(key);
  }
  return text;
}

let ahead: Promise<unknown> = Promise.resolve();

/** Say what comes back when all that is asked for ahead is here. */
export function holdAhead(all: Promise<unknown>): void {
  ahead = all.catch(() => undefined);
}

/** Comes back when all that was asked for ahead is here. */
export async function askedAll(): Promise<void> {
  await ahead;
}

/** Forget what was asked for ahead: it was asked for another team. */
export function dropAsked(): void {
  asked.clear();
  arrived.clear();
}

async function askedFor(path: string, call: Call): Promise<string | null> {
  if (asked.size === 0 || call.body !== undefined || (call.method ?? "GET") !== "GET") {
    return null;
  }
  const key = address(path, call.query);
  const answer = asked.get(key);
  forget(key);
  return (await answer) ?? null;
}

export interface Call {
  method?: string;
  query?: Record<string, string | number | boolean | readonly string[] | undefined> | undefined;
  body?: unknown;
  /** bytes to send as they are */
  raw?: Blob | undefined;
  signal?: AbortSignal | undefined;
  /** another team than the one of the page */
  team?: string | undefined;
}

/** The address of a path with its query. */
export function address(path: string, query: Call["query"] = {}): string {
  const words = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (Array.isArray(value)) {
      value.forEach((item: string) => words.append(key, item));
    } else if (value !== undefined) {
      words.append(key, String(value));
    }
  }
  const text = words.toString();
  return BASE + path + (text === "" ? "" : `?${text}`);
}

/** An address a tag or a link can carry, with the team in it as headers cannot be. */
export function link(path: string, query: Call["query"] = {}): string {
  return address(path, team === null ? query : { ...query, team });
}

async function send(path: string, call: Call): Promise<Response> {
  const headers: Record<string, string> = { accept: "application/json" };
  if (call.body !== undefined) {
    headers["content-type"] = "application/json";
  }
  const forTeam = call.team ?? team;
  if (forTeam !== null) {
    headers["x-yard-team"] = forTeam;
  }
  if (csrf !== null && call.method !== undefined && call.method !== "GET") {
    headers["x-csrf-token"] = csrf;
  }
  const init: RequestInit = { method: call.method ?? "GET", headers, credentials: "same-origin" };
  if (call.body !== undefined) {
    init.body = JSON.stringify(call.body);
  } else if (call.raw !== undefined) {
    init.body = call.raw;
  }
  if (call.signal !== undefined) {
    init.signal = call.signal;
  }
  try {
    return await fetch(address(path, call.query), init);
  } catch (cause) {
    if (cause instanceof DOMException && cause.name === "AbortError") {
      throw cause;
    }
    throw new Fault(0, "UNREACHABLE", "The server does not answer. Is it running, and is the network up?");
  }
}

async function faultOf(response: Response): Promise<Fault> {
  const text = await response.text();
  try {
    const body = JSON.parse(text) as { error_code?: string; message?: string; details?: Record<string, unknown> };
    return new Fault(response.status, body.error_code ?? "", body.message ?? text, body.details ?? {});
  } catch {
    return new Fault(response.status, "", text.slice(0, 300) || `The server answered ${response.status}.`);
  }
}

async function checked(path: string, call: Call): Promise<Response> {
  const response = await send(path, call);
  if (response.ok) {
    return response;
  }
  const fault = await faultOf(response);
  if (fault.status === 401 && !path.endsWith("/session")) {
    signedOut();
  }
  throw fault;
}

/** Call the server and read its JSON. */
export async function json<T>(path: string, call: Call = {}): Promise<T> {
  const text = (await askedFor(path, call)) ?? (await (await checked(path, call)).text());
  return (text === "" ? {} : JSON.parse(text)) as T;
}

const PAUSE = 1000;

/** Comes back once the server answers. */
export async function serverBack(): Promise<void> {
  for (;;) {
    const answers = await fetch(address("/health"), { cache: "no-store" }).then(
      (response) => response.ok,
      () => false,
    );
    if (answers) {
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
}

/** Call one of MLflow's routes. */
export function mlflow<T>(path: string, call: Call = {}): Promise<T> {
  return json<T>(`/ajax-api/2.0/mlflow/${path}`, call);
}

/** Read a file as text, no further than `most` bytes. */
export async function text(path: string, query: Call["query"], most: number): Promise<{ text: string; cut: boolean }> {
  const response = await checked(path, { query });
  const reader = response.body?.getReader();
  if (reader === undefined) {
    return { text: await response.text(), cut: false };
  }
  const decoder = new TextDecoder();
  let found = "";
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) {
      return { text: found + decoder.decode(), cut: false };
    }
    size += value.byteLength;
    found += decoder.decode(value, { stream: true });
    if (size > most) {
      await reader.cancel();
      return { text: found, cut: true };
    }
  }
}

/** Read a file's bytes. */
export async function binary(path: string, query?: Call["query"]): Promise<ArrayBuffer> {
  return (await checked(path, { query })).arrayBuffer();
}
