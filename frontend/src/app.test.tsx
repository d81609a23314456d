import { cleanup, render, screen } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { App } from "./app";

beforeEach(() => {
  vi.stubGlobal("matchMedia", () => ({ matches: false, addEventListener: () => undefined, removeEventListener: () => undefined }));
  vi.stubGlobal("scrollTo", () => undefined);
});
afterEach(cleanup);

test("without a session the first page asks for one", { timeout: 20_000 }, async () => {
  vi.stubGlobal("fetch", () => Promise.resolve(new Response('{"error_code":"UNAUTHENTICATED","message":"no"}', { status: 401 })));
  render(<App />);
  expect(await screen.findByRole("heading", { name: "Sign in" }, { timeout: 15_000 })).toBeTruthy();
});
