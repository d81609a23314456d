import { cleanup, render, screen } from "@testing-library/react";
import { afterEach, expect, test } from "vitest";

import { App } from "./app";

afterEach(cleanup);

test("the first page names the product", () => {
  render(<App />);
  expect(screen.getByRole("heading", { name: "Trackyard" })).toBeTruthy();
});
