/** Mounts the pages. Owns the root element alone. */
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import "uplot/dist/uPlot.min.css";
import "./ui/tokens.css";
import "./ui/base.css";
import "./ui/overlays.css";
import "./ui/layout.css";
import { App, prepare } from "./app";
import { startTheme } from "./ui/theme";

startTheme();

const root = document.getElementById("root");
if (root === null) {
  throw new Error("index.html has no element with id root");
}
void prepare().then(() =>
  createRoot(root).render(
    <StrictMode>
      <App />
    </StrictMode>,
  ),
);
