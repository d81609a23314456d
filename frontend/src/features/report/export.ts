/** A report as one HTML file that needs nothing else: charts become pictures. */
import { fileName, save } from "../chart/export";
import { token } from "../../ui/theme";

const TOKENS = ["--panel", "--ink", "--line", "--ink-2", "--accent"];

const style = (): string => `
:root { ${TOKENS.map((name) => `${name}: ${token(name)};`).join(" ")} }
body { background: var(--panel); color: var(--ink); font: 15px/1.55 system-ui, sans-serif; max-width: 900px; margin: 32px auto; padding: 0 20px; }
table { border-collapse: collapse; width: 100%; font-size: 13px; } th, td { text-align: left; padding: 4px 8px; border-bottom: 1px solid var(--line); }
.num { text-align: right; font-variant-numeric: tabular-nums; } figure { margin: 16px 0; } img { max-width: 100%; height: auto; }
.dot { display: inline-block; width: 10px; height: 10px; border-radius: 50%; } svg { vertical-align: middle; }
ul.report-legend { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: 4px 14px; font-size: 12px; }
pre, code { font-family: ui-monospace, monospace; font-size: 13px; } pre { overflow: auto; border: 1px solid var(--line); padding: 10px; }
blockquote { border-left: 3px solid var(--line); margin-left: 0; padding-left: 12px; } a { color: var(--accent); } .meta { color: var(--ink-2); font-size: 13px; }
`;

/** What stands in the file, made from the report as it is drawn. */
export function reportHtml(title: string, facts: string, drawn: HTMLElement): string {
  const copy = drawn.cloneNode(true) as HTMLElement;
  const canvases = [...drawn.querySelectorAll("canvas")];
  copy.querySelectorAll(".panel-plot").forEach((plot) => {
    const at = [...copy.querySelectorAll("canvas")].findIndex((canvas) => plot.contains(canvas));
    const source = canvases[at];
    if (source !== undefined) {
      const picture = document.createElement("img");
      picture.src = source.toDataURL("image/png");
      picture.alt = plot.closest("figure")?.getAttribute("aria-label") ?? "Chart";
      picture.dataset.place = String(at);
      plot.append(picture);
    }
  });
  // Only now: places among the canvases were counted above.
  copy.querySelectorAll(".panel-plot").forEach((plot) => {
    const picture = plot.querySelector("img");
    plot.replaceChildren(...(picture === null ? [plot.textContent ?? ""] : [picture]));
  });
  copy.querySelectorAll("button, .tools, script, style, dialog").forEach((part) => part.remove());
  copy.querySelectorAll("a[href]").forEach((link) => link.setAttribute("href", new URL(link.getAttribute("href") ?? "", window.location.href).href));
  const whole = document.implementation.createHTMLDocument(title);
  whole.documentElement.lang = "en";
  const meta = whole.createElement("meta");
  meta.setAttribute("charset", "utf-8");
  whole.head.prepend(meta);
  const sheet = whole.createElement("style");
  sheet.textContent = style();
  whole.head.append(sheet);
  const head = whole.createElement("h1");
  head.textContent = title;
  const about = whole.createElement("p");
  about.className = "meta";
  about.textContent = facts;
  whole.body.append(head, about, whole.importNode(copy, true));
  return `<!doctype html>\n${whole.documentElement.outerHTML}\n`;
}

/** Save a report as a file. */
export function saveReportHtml(title: string, facts: string, drawn: HTMLElement): void {
  save(fileName(title, "html"), new Blob([reportHtml(title, facts, drawn)], { type: "text/html" }));
}
