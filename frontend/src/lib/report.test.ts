import { describe, expect, it } from "vitest";

import { readBlock, setsOf, templateFor, type Live } from "./report";

const fault = (live: Live): string => (live.kind === "fault" ? live.fault : "");

describe("blocks of a report", () => {
  it("read a run set", () => {
    const live = readBlock("runs", "name: best\nexperiment: a, b\nfilter: heron\norder: metrics.val/loss desc, started\nlimit: 5\ncolumns: status, metrics.val/loss@min, params.lr\n# a remark");
    expect(live).toEqual({
      kind: "runs",
      set: {
        name: "best",
        title: "",
        experiments: ["a", "b"],
        filter: "attributes.run_name ILIKE '%heron%'",
        order: ["metrics.`val/loss` DESC", "attributes.start_time ASC"],
        limit: 5,
        columns: [
          { kind: "attribute", key: "status" },
          { kind: "metric", key: "val/loss", stat: "min" },
          { kind: "param", key: "lr" },
        ],
      },
    });
  });

  it("read a chart of a named set, of runs of its own, and of an expression", () => {
    expect(readBlock("chart", "metric: loss\nruns: best\nlog: y\nsmoothing: 0.5\nx: time\ngroup: params.lr")).toMatchObject({
      chart: { y: "loss", isExpression: false, runs: "best", axis: "time", smoothing: 0.5, logX: false, logY: true, group: { kind: "param", key: "lr" } },
    });
    expect(readBlock("chart", "metric: loss\nexperiment: a")).toMatchObject({ chart: { runs: { experiments: ["a"], limit: 10 } } });
    expect(readBlock("chart", "expression: exp(loss)\nagainst: tokens / 1e6")).toMatchObject({ chart: { isExpression: true, y: "exp(loss)", x: "tokens / 1e6" } });
  });

  it("say what is wrong, and what may be written", () => {
    expect(fault(readBlock("chart", "runs: best"))).toContain("metric: NAME");
    expect(fault(readBlock("chart", "metric: a\nexpression: b"))).toContain("either");
    expect(fault(readBlock("chart", "metric: a\nruns: best\nlimit: 3"))).toContain("put “limit” into that run set");
    expect(fault(readBlock("chart", "expression: 1 +"))).not.toBe("");
    expect(fault(readBlock("chart", "metric: a\nsmoothing: 2"))).toContain("0 to 0.99");
    expect(fault(readBlock("chart", "metric: a\nx: sideways"))).toContain("sideways");
    expect(fault(readBlock("runs", "limit: 0"))).toContain("1 to 100");
    expect(fault(readBlock("runs", "colums: a"))).toContain("columns");
    expect(fault(readBlock("runs", "columns: lr"))).toContain("params.NAME");
    expect(fault(readBlock("runs", "name: a\nname: b"))).toContain("twice");
  });

  it("find the sets that charts refer to; the first of a name counts", () => {
    const sets = setsOf("```runs\nname: a\nlimit: 3\n```\n> ```runs\n> name: b\n> ```\n\n```runs\nname: a\nlimit: 9\n```\n```python\nname: c\n```");
    expect([...sets].map(([name, set]) => [name, set.limit])).toEqual([["a", 3], ["b", 10]]);
  });

  it("understand the text a new report starts with", () => {
    expect([...setsOf(templateFor("val/loss", "food")).keys()]).toEqual(["best"]);
  });
});
