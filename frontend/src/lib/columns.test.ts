// @vitest-environment node
import { expect, test } from "vitest";

import { columnId, columnTitle, columnWidth, defaultColumns, orderBy, parseColumn } from "./columns";

test.each(["attribute:status", "metric:val/acc", "metric:loss@min", "param:lr", "tag:team", "spark:loss"])("%s can be read and written", (id) => {
  const column = parseColumn(id) ?? { kind: "tag" as const, key: "none" };
  expect(columnId(column)).toBe(id);
  expect(columnWidth(column)).toBeGreaterThanOrEqual(48);
});

test("what is no column is left out", () => {
  expect(["", "metric:", "attribute:shoe", "nothing", "planet:mars"].map(parseColumn)).toEqual([null, null, null, null, null]);
});

test("the server is asked to sort by what it knows", () => {
  const order = (id: string): string | null => {
    const column = parseColumn(id);
    return column === null ? null : orderBy(column);
  };
  expect(order("metric:a b")).toBe("metrics.`a b`");
  expect(order("metric:loss@min")).toBe("min(metrics.`loss`)");
  expect(order("param:lr")).toBe("params.`lr`");
  expect(order("tag:team")).toBe("tags.`team`");
  expect(order("spark:loss")).toBe("metrics.`loss`");
  expect(order("attribute:started")).toBe("attributes.start_time");
  expect(order("attribute:duration")).toBeNull();
});

test("a head names the statistic unless it is the last value", () => {
  expect(columnTitle({ kind: "metric", key: "loss", stat: "min" })).toBe("loss min");
  expect(columnTitle({ kind: "metric", key: "loss", stat: "last" })).toBe("loss");
  expect(columnTitle({ kind: "attribute", key: "note" })).toBe("Description");
});

test("a page starts with the state, a curve, what was validated and some parameters", () => {
  const columns = defaultColumns(["epoch_time", "system/cpu", "val_loss"], ["lr"]);
  expect(columns.slice(0, 4)).toEqual(["attribute:status", "metric:val_loss", "spark:val_loss", "attribute:duration"]);
  expect(columns).toContain("param:lr");
  expect(columns.join()).not.toContain("system/");
  expect(defaultColumns([], [])).toEqual(["attribute:status", "attribute:duration", "attribute:started"]);
});
