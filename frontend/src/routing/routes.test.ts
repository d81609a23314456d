import { describe, expect, it } from "vitest";

import { createMemoryHistory } from "./history";
import { createRouter } from "./router";
import { createRootRoute, createRoute, fillPath, matchRoute, retainSearchParams } from "./routes";

const root = createRootRoute();
const app = createRoute({ path: "/app", search: { middlewares: [retainSearchParams(["team"])] } });
const runs = createRoute({ path: "runs" });
const run = createRoute({ path: "runs/$runId" });
const fresh = createRoute({ path: "runs/new" });
const signIn = createRoute({ path: "/signin" });
root.addChildren([signIn, app.addChildren([runs, run, fresh])]);

describe("routes", () => {
  it("are found by path, fixed words before parameters, and keep their frame where there is no page", () => {
    expect(matchRoute(root, "/app/runs/a%2Fb")).toEqual({ chain: [root, app, run], params: { runId: "a/b" }, isMissing: false });
    expect(matchRoute(root, "/app/runs/new").chain.at(-1)).toBe(fresh);
    expect(matchRoute(root, "/app/nothing")).toEqual({ chain: [root, app], params: {}, isMissing: true });
    expect(matchRoute(root, "/nothing").chain).toEqual([root]);
    expect(fillPath("/app/runs/$runId", { runId: "a/b" })).toBe("/app/runs/a%2Fb");
  });

  it("keep the team in every link of theirs, unless it is taken out", async () => {
    const router = createRouter({ routeTree: root, basepath: "/yard", history: createMemoryHistory({ initialEntries: ["/yard/app/runs?team=vision&x=1"] }) });
    await router.load();
    expect(router.hrefOf({ to: "/app/runs/$runId", params: { runId: "r" } })).toBe("/yard/app/runs/r?team=vision");
    expect(router.hrefOf({ to: "/signin" })).toBe("/yard/signin");
    await router.navigate({ to: ".", search: (now) => ({ ...now, team: "speech" }) });
    expect(router.latestLocation).toEqual({ pathname: "/app/runs", search: { team: "speech", x: "1" }, hash: "" });
    expect(router.shown?.search).toEqual({ team: "speech", x: "1" });
  });
});
