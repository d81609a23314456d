import { describe, expect, test } from "vitest";

import { cellWords, chosenNodes, IDLE, OUT, partsOf, teamOf, type GpuLike, type NodeLike } from "./gpu-map";

const gpu = (index: number, team = "", share = 1): GpuLike => ({
  index,
  type: "H100",
  free: team === "" ? 1 : 1 - share,
  holders: team === "" ? [] : [{ job_id: "j1", name: "train", user: "ada", team, share }],
});
const node = (id: string, gpus: GpuLike[], more: Partial<NodeLike> = {}): NodeLike => ({ node_id: id, state: "ready", health: "ok", note: "", labels: {}, gpus, ...more });

describe("the GPUs of a cluster", () => {
  const ten = node("g10", [gpu(0, "nlp"), gpu(1)]);
  const drained = node("g3", [gpu(0)], { state: "drained" });
  const nodes = [ten, node("g2", [gpu(0, "vision", 0.5)], { labels: { rack: "b" } }), drained];

  test("are counted by team, with what is idle and what is out of service", () => {
    const { teams, idle, out } = partsOf(nodes);
    expect(teams.map(({ team, gpus }) => [team, gpus])).toEqual([["nlp", 1], ["vision", 0.5]]);
    expect([idle, out]).toEqual([1.5, 1]);
    expect(new Set(teams.map(({ colour }) => colour)).size).toBe(2);
  });

  test("belong to whoever holds most of them", () => {
    expect(ten.gpus.map((one) => teamOf(ten, one))).toEqual(["nlp", IDLE]);
    expect(teamOf(drained, gpu(0))).toBe(OUT);
  });

  test("stand in natural order, and are found by holder, label and state", () => {
    expect(chosenNodes(nodes, "").map((one) => one.node_id)).toEqual(["g2", "g3", "g10"]);
    expect(chosenNodes(nodes, "rack=b").map((one) => one.node_id)).toEqual(["g2"]);
    expect(chosenNodes(nodes, "drained").map((one) => one.node_id)).toEqual(["g3"]);
    expect(chosenNodes(nodes, "nlp").map((one) => one.node_id)).toEqual(["g10"]);
  });

  test("say who holds them", () => {
    expect(cellWords(ten, gpu(0, "nlp"), 91.2)).toBe("g10 GPU 0: train of ada, team nlp, 91 % busy");
    expect(cellWords(drained, gpu(0), null)).toBe("g3 GPU 0: drained");
  });
});
