/** Charts as files: PNG and CSV, made here and saved by the browser. */
import type { Series } from "../../api/series";
import { toCsv } from "../../lib/csv";
import { token } from "../../ui/theme";

/** Save bytes under a name. */
export function save(name: string, data: Blob): void {
  const address = URL.createObjectURL(data);
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

/** A name that every system takes. */
export function fileName(text: string, ending: string): string {
  return `${text.replace(/[^\w.-]+/g, "_").replace(/^_+|_+$/g, "") || "chart"}.${ending}`;
}

/** Save a canvas with its title above it and the names of its curves below. */
export function savePng(title: string, source: HTMLCanvasElement, names: readonly { name: string; colour: string }[]): void {
  const scale = window.devicePixelRatio || 1;
  const shown = names.slice(0, 24);
  const columns = Math.max(1, Math.floor(source.width / (180 * scale)));
  const foot = (Math.ceil(shown.length / columns) * 18 + 12) * scale;
  const canvas = document.createElement("canvas");
  canvas.width = source.width;
  canvas.height = source.height + 30 * scale + foot;
  const pen = canvas.getContext("2d");
  if (pen === null) {
    return;
  }
  pen.fillStyle = token("--panel");
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.fillStyle = token("--ink");
  pen.font = `600 ${13 * scale}px ${token("--font")}`;
  pen.fillText(title, 10 * scale, 20 * scale);
  pen.drawImage(source, 0, 30 * scale);
  pen.font = `${11 * scale}px ${token("--font")}`;
  shown.forEach(({ name, colour }, at) => {
    const left = ((at % columns) * 180 + 12) * scale;
    const top = source.height + (30 + 14 + Math.floor(at / columns) * 18) * scale;
    pen.fillStyle = colour;
    pen.fillRect(left, top - 7 * scale, 10 * scale, 7 * scale);
    pen.fillStyle = token("--ink");
    pen.fillText(name.slice(0, 28), left + 16 * scale, top);
  });
  canvas.toBlob((data) => data !== null && save(fileName(title, "png"), data), "image/png");
}

/** Save what a drawing of shapes shows. */
export function saveSvg(title: string, drawing: SVGSVGElement): void {
  const { width, height } = drawing.getBoundingClientRect();
  const copy = drawing.cloneNode(true) as SVGSVGElement;
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", String(width));
  copy.setAttribute("height", String(height));
  inlineColours(drawing, copy);
  const image = new Image();
  const address = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" }));
  image.addEventListener("load", () => {
    const canvas = document.createElement("canvas");
    canvas.width = width * 2;
    canvas.height = height * 2;
    const pen = canvas.getContext("2d");
    if (pen !== null) {
      pen.fillStyle = token("--panel");
      pen.fillRect(0, 0, canvas.width, canvas.height);
      pen.drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((data) => data !== null && save(fileName(title, "png"), data), "image/png");
    }
    URL.revokeObjectURL(address);
  });
  image.src = address;
}

/** A drawing on its own knows no style sheet: write colours and fonts into it. */
function inlineColours(from: Element, to: Element): void {
  const style = getComputedStyle(from);
  for (const name of ["fill", "stroke", "font-size", "font-family", "opacity", "stroke-width"]) {
    (to as SVGElement).style.setProperty(name, style.getPropertyValue(name));
  }
  Array.from(from.children).forEach((child, at) => {
    const twin = to.children[at];
    if (twin !== undefined) {
      inlineColours(child, twin);
    }
  });
}

/** Save series as rows of a table. */
export function saveCsv(title: string, series: readonly Series[], nameOf: (run: string) => string): void {
  const rows = series.flatMap((one) =>
    one.step.map((step, at) => [one.run_id, nameOf(one.run_id), one.key, step, one.time_ms[at], one.last[at], one.min[at], one.max[at], one.count[at]]),
  );
  const text = toCsv(["run_id", "run", "metric", "step", "time_ms", "last", "min", "max", "points"], rows);
  save(fileName(title, "csv"), new Blob([text], { type: "text/csv" }));
}
