/** The table of trials has a row for each, with its parameters, state and metric. */
import { cleanup, render, screen, within } from "@testing-library/react";
import { afterEach, describe, expect, it } from "vitest";

import type { Trial } from "../../api/jobs";
import { metricName, paramNames, Trials } from "./trials";

afterEach(cleanup);

const first: Trial = {
  trial: "9e1_00000",
  number: 1,
  attempt: 1,
  state: "terminated",
  params: { lr: 0.0123456789, layers: 2 },
  metrics: { loss: 0.5, accuracy: 0.75 },
  metric: "accuracy",
  value: 0.75,
  iterations: 20,
  seconds: 12,
  error: "",
};
const second: Trial = { ...first, trial: "9e1_00001", number: 2, state: "error", params: { lr: 0.5, depth: "deep" }, metrics: {}, value: null, iterations: 1, error: "ValueError: boom" };

describe("trials", () => {
  it("have a row each, with what was chosen and what was reached", () => {
    render(<Trials trials={[first, second]} />);
    const [head, one, two] = screen.getAllByRole("row");
    expect(within(head as HTMLElement).getAllByRole("columnheader").map((cell) => cell.textContent)).toEqual(["Trial", "State", "lr", "layers", "depth", "accuracy", "Iterations", "Ran"]);
    expect(one?.textContent).toContain("0.0123457");
    expect(one?.textContent).toContain("0.75");
    expect(two?.textContent).toContain("ValueError: boom");
  });

  it("go by the metric of the search, or the first that was reported", () => {
    expect(metricName([first])).toBe("accuracy");
    expect(metricName([{ ...first, metric: "" }])).toBe("loss");
    expect(paramNames([first, second])).toEqual(["lr", "layers", "depth"]);
  });
});
