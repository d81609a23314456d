import { expect, test } from "vitest";

import { pageOf } from "./mlflow-link";

const RUN = "761f564f8a7b4799ba19804d5889d778";

test("the address a client prints for a run opens that run", () => {
  expect(pageOf(`#/experiments/101600869860674073/runs/${RUN}`)).toBe(`/app/runs/${RUN}`);
  expect(pageOf(`#/experiments/0/runs/${RUN}/artifacts`)).toBe(`/app/runs/${RUN}`);
});

test("an experiment's address opens the experiments, anything else home", () => {
  expect(pageOf("#/experiments/101600869860674073")).toBe("/app/experiments");
  expect(pageOf("")).toBe("/app/home");
  expect(pageOf("#/experiments/1/runs/../../evil")).toBe("/app/experiments");
  expect(pageOf("#//evil.example")).toBe("/app/home");
});
