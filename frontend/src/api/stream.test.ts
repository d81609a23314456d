// @vitest-environment node
import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { Stream, type Message } from "./stream";

class Source {
  static all: Source[] = [];
  closed = false;
  readonly url: string;
  private readonly heard = new Map<string, ((event: unknown) => void)[]>();

  constructor(url: string) {
    this.url = url;
    Source.all.push(this);
  }

  addEventListener(kind: string, listener: (event: unknown) => void): void {
    this.heard.set(kind, [...(this.heard.get(kind) ?? []), listener]);
  }

  close(): void {
    this.closed = true;
  }

  tell(kind: string, event: unknown = {}): void {
    this.heard.get(kind)?.forEach((listener) => listener(event));
  }
}

beforeEach(() => {
  vi.useFakeTimers();
  Source.all = [];
  vi.stubGlobal("EventSource", Source);
});
afterEach(() => {
  vi.useRealTimers();
});

test("messages reach listeners together, without what cannot be read", () => {
  const stream = new Stream();
  const heard: Message[][] = [];
  stream.listen((messages) => heard.push(messages));
  stream.open();
  Source.all[0]?.tell("message", { lastEventId: "7", data: '{"id":7,"kind":"run.created"}' });
  Source.all[0]?.tell("message", { lastEventId: "", data: "no json" });
  Source.all[0]?.tell("message", { lastEventId: "", data: '{"kind":"points","runs":["a"]}' });
  vi.advanceTimersByTime(1000);
  expect(heard).toHaveLength(1);
  expect(heard[0]?.map((message) => message.kind)).toEqual(["run.created", "points"]);
});

test("a lost link comes back where it left off, and says that notices were missed", () => {
  const stream = new Stream();
  const reloads = vi.fn();
  stream.onReload(reloads);
  stream.open();
  Source.all[0]?.tell("open");
  expect(stream.state).toBe("live");
  Source.all[0]?.tell("message", { lastEventId: "41", data: '{"id":41,"kind":"x"}' });
  Source.all[0]?.tell("error");
  expect(stream.state).toBe("lost");
  vi.advanceTimersByTime(5000);
  expect(Source.all[1]?.url).toContain("since=41");
  Source.all[1]?.tell("open");
  expect(stream.state).toBe("live");
  expect(reloads).toHaveBeenCalledTimes(1);
});

test("a closed stream stays closed", () => {
  const stream = new Stream();
  stream.open();
  Source.all[0]?.tell("error");
  stream.close();
  vi.advanceTimersByTime(60_000);
  expect(Source.all).toHaveLength(1);
});
