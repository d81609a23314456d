import { cleanup, render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, describe, expect, test } from "vitest";

import type { YardEvent } from "../../api/events";
import { Turns } from "./history";

afterEach(cleanup);

const turn = (id: number, kind: string, sentence: string, actor = "system"): YardEvent => ({
  id,
  time_ms: Date.UTC(2026, 2, 1, 12, id),
  team_id: 1,
  actor,
  kind,
  subject: "lease",
  subject_id: "L1",
  data: { name: "mltrain", sentence } as unknown as YardEvent["data"],
});

describe("the history of a lease", () => {
  test("tells each turn with its time, its word and its sentence, and who it was of", () => {
    render(
      <Turns
        events={[
          turn(3, "lease.crossed", "Ray job raysubmit_7 runs on g03 past the queue."),
          turn(2, "lease.shaken", "The hold on g03 was lost and is mended."),
          turn(1, "lease.created", "g03 is ada's from 12:00.", "ada"),
        ]}
      />,
    );
    const lines = screen.getAllByRole("listitem").map((line) => line.textContent);
    expect(lines[0]).toMatch(/\d\d:\d\d.*crossed.*raysubmit_7/);
    expect(lines[1]).toMatch(/hold shaken.*is mended/);
    expect(lines[1]).not.toContain("system");
    expect(lines[2]).toMatch(/promised.*by ada/);
  });

  test("shows the latest turns first and the rest on demand", async () => {
    render(<Turns events={Array.from({ length: 20 }, (_, at) => turn(20 - at, "lease.idle", `turn ${20 - at}`))} />);
    expect(screen.getAllByRole("listitem")).toHaveLength(8);
    await userEvent.click(screen.getByRole("button", { name: "Show 12 earlier turns" }));
    expect(screen.getAllByRole("listitem")).toHaveLength(20);
  });

  test("of another team says why there is none", () => {
    render(<Turns events={[]} />);
    expect(screen.getByText(/visible to its own team only/)).toBeTruthy();
  });
});
