// @vitest-environment node
import { describe, expect, test } from "vitest";

import { between, dragged, drawn, lanesOf, placeOf, verbOf } from "./calendar-rows";
import { countdown, DAY, dayWord, formTime, HOUR, midnight, MINUTE, offsetAt, readDay, readForm, snap, span, ticksOf, turned, windowOf } from "./calendar-time";
import { troublesIn, turnOf } from "./lease-history";
import { effectOf, leaseLine, leaseState } from "./lease-lines";

process.env.TZ = "Europe/Berlin";
const at = (text: string): number => new Date(text).getTime();
const noon = at("2026-03-01T12:00");

describe("time on the calendar", () => {
  test("a day of the change to summer time has 23 hours, one of the change back 25", () => {
    const spring = windowOf("day", at("2026-03-29T10:00"));
    const autumn = windowOf("day", at("2026-10-25T10:00"));
    expect([(spring.to - spring.from) / HOUR, (autumn.to - autumn.from) / HOUR]).toEqual([23, 25]);
    const week = windowOf("week", at("2026-03-26T10:00"));
    expect([formTime(week.from), formTime(week.to)]).toEqual(["2026-03-26T00:00", "2026-04-02T00:00"]);
    expect(ticksOf("week", week).every((tick) => formTime(tick.at).endsWith("T00:00"))).toBe(true);
  });

  test("offsets are those of the moment, and both are shown where they differ", () => {
    expect([offsetAt(noon), offsetAt(at("2026-07-01T12:00"))]).toEqual(["+01:00", "+02:00"]);
    expect(span(noon, noon + 3 * HOUR)).toBe("Sun 1 Mar 12:00 to 15:00 (+01:00)");
    expect(span(at("2026-03-28T23:00"), at("2026-03-29T04:00"))).toBe("Sat 28 Mar 23:00 (+01:00) to Sun 29 Mar 04:00 (+02:00)");
  });

  test("days and moments of forms are read back as they were written", () => {
    expect(readDay(dayWord(noon))).toBe(midnight(noon));
    expect(readForm(formTime(noon))).toBe(noon);
    expect([readDay("tomorrow"), readForm(""), readDay(undefined)]).toEqual([null, null, null]);
    expect(dayWord(turned("month", noon, 1))).toBe("2026-03-31");
  });

  test("hours of a day and days of thirty are named", () => {
    expect(ticksOf("day", windowOf("day", noon)).map((tick) => tick.word).slice(0, 3)).toEqual(["00:00", "02:00", "04:00"]);
    const days = ticksOf("month", windowOf("month", noon));
    expect([days.length, days[0]?.word, days[1]?.word]).toEqual([30, "Mar", "2"]);
  });

  test("steps count from midnight, and what is left is told to the second at the end", () => {
    expect(formTime(snap(noon + 8 * MINUTE, 15 * MINUTE))).toBe("2026-03-01T12:15");
    expect([countdown(125_000), countdown(41 * MINUTE), countdown(130 * MINUTE), countdown(3 * DAY), countdown(-5)]).toEqual(["2:05", "41m", "2h10", "3d 0h", "0:00"]);
  });
});

describe("bars", () => {
  const lease = { starts_ms: noon, ends_ms: noon + 2 * HOUR };

  test("lie in percent of the window, cut at its edges", () => {
    const shown = { from: noon, to: noon + 4 * HOUR };
    expect(placeOf(lease, shown)).toEqual({ left: 0, width: 50 });
    expect(placeOf({ starts_ms: noon - HOUR, ends_ms: noon + HOUR }, shown)).toEqual({ left: 0, width: 25 });
    expect(placeOf({ starts_ms: noon - HOUR, ends_ms: noon }, shown)).toBeNull();
  });

  test("that overlap get lanes of their own, and a lane is used again", () => {
    const spans = [lease, { starts_ms: noon + HOUR, ends_ms: noon + 3 * HOUR }, { starts_ms: noon + 2 * HOUR, ends_ms: noon + 4 * HOUR }];
    expect(lanesOf(spans).map(({ lane }) => lane)).toEqual([0, 1, 0]);
  });

  test("move as a whole, stretch by an edge, and never become nothing", () => {
    expect(dragged(lease, "move", 67 * MINUTE, "day")).toEqual({ starts_ms: noon + 60 * MINUTE, ends_ms: noon + 180 * MINUTE });
    expect(dragged(lease, "end", HOUR, "day").ends_ms).toBe(noon + 3 * HOUR);
    expect(dragged(lease, "end", -9 * HOUR, "day").ends_ms).toBe(noon + 15 * MINUTE);
    expect(dragged(lease, "start", 9 * HOUR, "day").starts_ms).toBe(noon + 105 * MINUTE);
  });

  test("drawn backwards or into the past begin no earlier than now", () => {
    expect(drawn(noon + 2 * HOUR, noon + HOUR, "day", noon, HOUR)).toEqual({ starts_ms: noon + HOUR, ends_ms: noon + 2 * HOUR });
    expect(drawn(noon - 3 * HOUR, noon + HOUR, "day", noon, HOUR)).toEqual({ starts_ms: noon, ends_ms: noon + HOUR });
    expect(drawn(noon, noon, "week", noon, 4 * HOUR)).toEqual({ starts_ms: noon, ends_ms: noon + 4 * HOUR });
    expect(between(["a", "b", "c"], "c", "b")).toEqual(["b", "c"]);
    expect(between(["a"], "x", "a")).toEqual(["x"]);
  });

  test("a change is an extension, a shrinking or a move", () => {
    const held = { ...lease, nodes: ["a", "b"] };
    expect(verbOf(held, held)).toBeNull();
    expect(verbOf(held, { ...held, ends_ms: held.ends_ms + HOUR })).toBe("extend");
    expect(verbOf(held, { ...held, ends_ms: held.ends_ms - HOUR })).toBe("shrink");
    expect(verbOf(held, { ...held, nodes: ["a"] })).toBe("shrink");
    expect(verbOf(held, { ...held, nodes: ["a", "c"] })).toBe("move");
    expect(verbOf(held, { ...held, starts_ms: held.starts_ms + HOUR })).toBe("move");
  });
});

describe("the lines", () => {
  const draft = { starts_ms: noon, ends_ms: noon + 3 * HOUR, nodes: ["g03"] };
  const wish = { ...draft, name: "mltrain_ada", type: "", where: "", count: 1, purpose: "", before_end: "drain", personal: false };

  test("say what the form says", () => {
    expect(leaseLine.add(wish)).toBe("yard lease add mltrain_ada --node g03 --start '2026-03-01 12:00' --for 3h");
    expect(leaseLine.add({ ...wish, name: "", nodes: [], type: "a100", count: 2, purpose: "lab 3", before_end: "notify", personal: true })).toBe(
      "yard lease add NAME --type a100 --count 2 --start '2026-03-01 12:00' --for 3h --purpose 'lab 3' --before-end notify --personal",
    );
  });

  test("say what a drag does", () => {
    expect(leaseLine.change("x", "extend", draft, { ...draft, ends_ms: noon + 4 * HOUR })).toBe("yard lease extend x --end '2026-03-01 16:00'");
    expect(leaseLine.change("x", "shrink", { ...draft, nodes: ["g03", "g04"] }, draft)).toBe("yard lease shrink x --node g04");
    expect(leaseLine.change("x", "move", draft, { starts_ms: noon + HOUR, ends_ms: noon + 4 * HOUR, nodes: ["g04"] })).toBe("yard lease move x --start '2026-03-01 13:00' --node g04");
    expect([leaseLine.release("x"), leaseLine.recall("x"), leaseLine.transfer("x", "")]).toEqual(["yard lease release x", "yard lease recall x", "yard lease transfer x USER"]);
  });

  test("states and effects have words, also those that come later", () => {
    expect([leaseState("active").word, leaseState("new").word, effectOf("drained").word, effectOf("odd").word]).toEqual(["active", "new", "is drained", "odd"]);
  });
});

describe("the history of a lease", () => {
  test("has a word, an icon and a tone for each turn, a new kind of turn included", () => {
    expect(turnOf("lease.shaken")).toEqual({ word: "hold shaken", icon: "warn", tone: "amber" });
    expect(turnOf("lease.terminating").word).toBe("draining");
    expect(turnOf("lease.not_yet_known")).toEqual({ word: "not yet known", icon: "dots", tone: "grey" });
  });

  test("counts what endangered the promise, not what was planned", () => {
    const kinds = ["lease.created", "lease.started", "lease.shaken", "lease.crossed", "lease.degraded", "lease.replaced", "lease.ended"];
    expect(troublesIn(kinds.map((kind) => ({ kind })))).toBe(3);
  });
});
