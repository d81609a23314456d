/** A log is followed by offset, without a gap, a double line or half a letter. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { levelOf, LogText, settled, startAt } from "../../lib/log-text";
import { LogTail } from "./log-tail";

describe("the text of a log", () => {
  it("joins a line that came in pieces", () => {
    const log = new LogText();
    log.append("one\ntw");
    expect(log.lines).toEqual(["one", "tw"]);
    log.append("o\nthree\n");
    expect(log.lines).toEqual(["one", "two", "three"]);
  });

  it("shows progress bars as a terminal leaves them, without colours", () => {
    expect(settled("10%\r50%\r100%\r")).toBe("100%");
    expect(settled("\u001b[31mred\u001b[0m")).toBe("red");
  });

  it("drops the oldest lines beyond its limit and counts them", () => {
    const log = new LogText(2);
    log.append("a\nb\nc\n");
    expect(log.lines).toEqual(["b", "c"]);
    expect(log.dropped).toBe(1);
  });

  it("tells errors and warnings by their words", () => {
    expect(levelOf("RuntimeError: out of memory")).toBe("error");
    expect(levelOf("WARNING: slow")).toBe("warn");
    expect(levelOf("step 5 loss 0.3")).toBeNull();
  });

  it("begins near the end of a long log", () => {
    expect(startAt(100)).toBe(0);
    expect(startAt(10_000_000, 1000)).toBe(9_999_000);
  });
});

describe("following a log", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  const server = (whole: { bytes: Uint8Array<ArrayBuffer>; fails: number; asked: number[] }) => async (_: string, { offset, limit }: { offset: number; limit?: number }) => {
    whole.asked.push(offset);
    if (whole.fails > 0) {
      whole.fails -= 1;
      throw new Error("away");
    }
    return whole.bytes.slice(offset, limit === undefined ? undefined : offset + limit).buffer;
  };
  const encode = (text: string): Uint8Array<ArrayBuffer> => new TextEncoder().encode(text);

  it("reads what is new from where it was, even in the middle of a letter", async () => {
    const all = encode("erste Zeile\nübermäßig\n");
    const whole = { bytes: all.slice(0, 13), fails: 0, asked: [] as number[] };
    const tail = new LogTail({ job: "j", attempt: 1, rank: 0, size: 0 }, server(whole));
    tail.start();
    await vi.advanceTimersByTimeAsync(10);
    whole.bytes = all;
    await vi.advanceTimersByTimeAsync(1000);
    expect(tail.state.lines).toEqual(["erste Zeile", "übermäßig"]);
    expect(whole.asked.slice(0, 2)).toEqual([0, 13]);
    tail.close();
  });

  it("goes on after a fault without losing or doubling a line", async () => {
    const whole = { bytes: encode("a\nb\n"), fails: 1, asked: [] as number[] };
    const tail = new LogTail({ job: "j", attempt: 1, rank: 0, size: 0 }, server(whole));
    tail.start();
    await vi.advanceTimersByTimeAsync(10);
    expect(tail.state.fault).toBe("away");
    await vi.advanceTimersByTimeAsync(5000);
    expect(tail.state).toMatchObject({ lines: ["a", "b"], fault: null });
    tail.close();
  });

  it("stops asking once the attempt is over and all was read", async () => {
    const whole = { bytes: encode("end\n"), fails: 0, asked: [] as number[] };
    const tail = new LogTail({ job: "j", attempt: 1, rank: 0, size: 0 }, server(whole));
    tail.end();
    tail.start();
    await vi.advanceTimersByTimeAsync(20_000);
    expect(tail.state.lines).toEqual(["end"]);
    expect(whole.asked.length).toBe(2);
  });

  it("takes nothing twice when it is closed and started again", async () => {
    const whole = { bytes: encode("once\n"), fails: 0, asked: [] as number[] };
    const tail = new LogTail({ job: "j", attempt: 1, rank: 0, size: 0 }, server(whole));
    tail.start();
    tail.close();
    tail.start();
    await vi.advanceTimersByTimeAsync(3000);
    expect(tail.state.lines).toEqual(["once"]);
    tail.close();
  });

  it("brings back what lies before a long log's end", async () => {
    const lines = Array.from({ length: 200_000 }, (_, at) => `line ${at}`).join("\n") + "\n";
    const whole = { bytes: encode(lines), fails: 0, asked: [] as number[] };
    const tail = new LogTail({ job: "j", attempt: 1, rank: 0, size: whole.bytes.length }, server(whole));
    tail.start();
    await vi.advanceTimersByTimeAsync(3000);
    const before = tail.state.before;
    expect(before).toBeGreaterThan(0);
    const count = tail.state.lines.length;
    await tail.earlier();
    expect(tail.state.before).toBeLessThan(before);
    expect(tail.state.lines.length).toBeGreaterThan(count);
    tail.close();
  });
});
