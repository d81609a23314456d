/** The why card tells the dominant reason, when it starts, and what would help. */
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { createMemoryHistory, createRootRoute, createRouter, RouterProvider } from "@tanstack/react-router";
import { cleanup, render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, describe, expect, it, vi } from "vitest";

import type { Eta, Job, Reason } from "../../api/jobs";
import { etaWords } from "../job/eta";
import { WhyCard } from "./why-card";

afterEach(cleanup);

const reason: Reason = { code: "held", tier: "dependency", sentence: "Its owner holds it back", remedy: "Release it: `yard release`", needed: null, free: null, limit: null, unit: "gpus", holders: [], holder_count: 0, until_ms: null, ahead: 0 };
const job = { job_id: "jabc1234", name: "night", array_index: null, array_id: "", state: "queued", held: true, priority: "normal", gpus: 1, nodes: 1, submitted_ms: 0, time_limit_seconds: null, team: "default", reason } as unknown as Job;

async function show(reasons: Reason[], eta: Eta | null): Promise<void> {
  const root = createRootRoute({ component: () => <WhyCard job={job} reasons={reasons} eta={eta} position={3} waiting={7} nameOf={(id) => id} /> });
  const router = createRouter({ routeTree: root, history: createMemoryHistory({ initialEntries: ["/"] }) });
  render(
    <QueryClientProvider client={new QueryClient({ defaultOptions: { queries: { retry: false } } })}>
      <RouterProvider router={router as never} />
    </QueryClientProvider>,
  );
  await screen.findByText(/just now|holds it back|No node/);
}

describe("the why card", () => {
  it("says tier, sentence, place and the action that helps, and does it", async () => {
    const calls: string[] = [];
    vi.stubGlobal("fetch", async (url: string, init: RequestInit) => {
      calls.push(`${init.method} ${url}`);
      return new Response("{}");
    });
    await show([reason], null);
    expect(screen.getByText("Depends")).toBeTruthy();
    expect(screen.getByText("3 of 7")).toBeTruthy();
    expect(screen.getByText("not as requested")).toBeTruthy();
    expect(screen.getByText("yard release jabc1234")).toBeTruthy();
    await userEvent.click(screen.getByRole("button", { name: "Release it" }));
    expect(calls).toContain("POST /api/v1/jobs/jabc1234/release");
  });

  it("says that it was not looked at yet where there is no reason", async () => {
    vi.stubGlobal("fetch", async () => new Response("{}"));
    await show([], null);
    expect(screen.getByText(/was queued just now/)).toBeTruthy();
  });

  it("tells a start as a time with its range", () => {
    const now = new Date(2026, 10, 16, 12, 0).getTime();
    const at = (minutes: number): number => now + minutes * 60_000;
    expect(etaWords({ start_ms: at(20), earliest_ms: at(10), latest_ms: at(50), confidence: 1 }, now)).toEqual({ about: "about 12:20", range: "12:10 to 12:50" });
    expect(etaWords({ start_ms: now, earliest_ms: now, latest_ms: now, confidence: 1 }, now)).toEqual({ about: "any moment", range: "" });
    expect(etaWords(null, now)).toBeNull();
  });
});
