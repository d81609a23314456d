/** Keys of the frame and of a page side by side: who hears which. */
import { createMemoryHistory, createRootRoute, createRoute, createRouter, Outlet, RouterProvider } from "@tanstack/react-router";
import { cleanup, render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, expect, test, vi } from "vitest";

import { useKeys, usePlainKeys } from "./keys";

afterEach(cleanup);

const heard = vi.fn((key: string) => ["s", "h", "c", "Enter"].includes(key));
const pressed = vi.fn();

function Page(): React.ReactElement {
  usePlainKeys(heard);
  return (
    <>
      <input type="checkbox" aria-label="Select" />
      <input aria-label="Filter" />
      <button type="button" onClick={pressed}>
        Columns
      </button>
    </>
  );
}

function Frame(): React.ReactElement {
  useKeys({ onPalette: () => undefined, onHelp: () => undefined });
  return <Outlet />;
}

test("a letter is for the page, unless g came before it: then it is for the frame alone", async () => {
  const root = createRootRoute({ component: Frame });
  const runs = createRoute({ getParentRoute: () => root, path: "/app/runs", component: Page });
  const home = createRoute({ getParentRoute: () => root, path: "/app/home", component: () => <h1>Home</h1> });
  const leases = createRoute({ getParentRoute: () => root, path: "/app/leases", component: () => <h1>Leases</h1> });
  const router = createRouter({ routeTree: root.addChildren([runs, home, leases]), history: createMemoryHistory({ initialEntries: ["/app/runs"] }) });
  await router.load();
  render(<RouterProvider router={router as never} />);
  const user = userEvent.setup();
  // A page that has just been opened takes its own keys at once.
  const now = vi.spyOn(performance, "now").mockReturnValue(400);
  await user.keyboard("s");
  expect(heard.mock.calls.map(([key]) => key)).toEqual(["s"]);
  now.mockRestore();
  expect(router.latestLocation.pathname).toBe("/app/runs");
  // A box that was just ticked takes no letters; a text does, and a button keeps its Enter.
  await user.click(screen.getByLabelText("Select"));
  await user.keyboard("c");
  await user.type(screen.getByLabelText("Filter"), "s");
  screen.getByRole("button", { name: "Columns" }).focus();
  await user.keyboard("{Enter}");
  expect(heard.mock.calls.map(([key]) => key)).toEqual(["s", "c"]);
  expect(pressed).toHaveBeenCalledOnce();
  await user.keyboard("gh");
  await screen.findByRole("heading", { name: "Home" });
  expect(heard.mock.calls.map(([key]) => key)).not.toContain("h");
});
