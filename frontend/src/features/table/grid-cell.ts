/** One cell of the runs table as an element: written only where what it shows has changed. */
import { seriesStore, type Want } from "../../api/series";
import { stateOf } from "../../lib/states";
import { drawIcon } from "../../ui/icon";
import type { Look } from "./cell-look";
import { sparkPath } from "./sparkline";

const SVG = "http://www.w3.org/2000/svg";
const CURVE = 20;
/** About the width of a letter: longer words are cut by the browser, which costs it more. */
const LETTER = 6.5;

// Cells are copies of this one.
const CELL = document.createElement("div");
CELL.setAttribute("role", "gridcell");
CELL.append("");

/** Where a cell stands. */
export interface Place {
  id: string;
  /** its number among all columns */
  at: number;
  start: number;
  size: number;
  numeric: boolean;
}

export class GridCell {
  readonly element = CELL.cloneNode(true) as HTMLElement;
  private place: Place | null = null;
  private shown = "";
  private look: Look = { kind: "wait", text: "", full: "" };
  private stop: (() => void) | null = null;

  /** Whether nothing is shown yet: it has just come to its column. */
  get isBlank(): boolean {
    return this.shown === "";
  }

  /** The whole value of what is shown. */
  get full(): string {
    return this.look.full;
  }

  /** Put the cell into a column. */
  move(place: Place): void {
    const before = this.place;
    this.place = place;
    if (place.at !== before?.at) {
      this.element.setAttribute("aria-colindex", String(place.at + 2));
    }
    if (place.size !== before?.size) {
      this.element.style.width = `${place.size}px`;
    }
    // Most cells stay in their column while one scrolls: what they show is left alone.
    if (place.id !== before?.id || place.size !== before.size) {
      this.shown = "";
    }
  }

  /** Show something; `metric` and `colour` are those of a curve. */
  show(look: Look, metric: string, colour: string): void {
    this.look = look;
    const key = `${look.kind}\n${look.text}`;
    if (key === this.shown) {
      return;
    }
    this.shown = key;
    this.unwatch();
    if (this.element.title !== "") {
      this.element.removeAttribute("title");
    }
    const size = this.place?.size ?? 0;
    const isLong = look.text.length * LETTER > size - 18;
    this.element.className = `grid-td is-${look.kind}${this.place?.numeric === true ? " num" : ""}${isLong ? " long" : ""}`;
    if (look.kind === "text" || look.kind === "none" || look.kind === "code") {
      write(this.element, look.text);
    } else if (look.kind === "state") {
      this.element.replaceChildren(stateBadge(look.text));
    } else if (look.kind === "spark") {
      this.curve(look.text, metric, colour, size - 16);
    } else {
      const wait = document.createElement("span");
      wait.className = "skeleton cell-wait";
      this.element.replaceChildren(wait);
    }
  }

  /** Stop following what it shows. */
  close(): void {
    this.unwatch();
    this.shown = "";
    this.element.remove();
  }

  private unwatch(): void {
    this.stop?.();
    this.stop = null;
  }

  private curve(run: string, metric: string, colour: string, width: number): void {
    const want: Want = { runs: [run], key: metric, points: 48, span: null, orphans: false };
    const svg = document.createElementNS(SVG, "svg");
    const path = document.createElementNS(SVG, "path");
    svg.setAttribute("class", "spark");
    svg.setAttribute("width", String(width));
    svg.setAttribute("height", String(CURVE));
    svg.setAttribute("role", "img");
    path.setAttribute("fill", "none");
    path.setAttribute("stroke", colour);
    path.setAttribute("stroke-width", "1.4");
    path.setAttribute("stroke-linejoin", "round");
    svg.append(path);
    const draw = (): void => {
      const [series] = seriesStore.get(want);
      const line = series === undefined ? "" : sparkPath(series, width, CURVE);
      path.setAttribute("d", line);
      svg.setAttribute("aria-label", line === "" ? `no ${metric}` : `curve of ${metric}`);
    };
    this.stop = seriesStore.watch(want, draw);
    draw();
    this.element.replaceChildren(svg);
  }
}

/** Write words into an element, into the text that it holds where it holds one. */
export function write(element: Element, text: string): void {
  const { firstChild } = element;
  if (firstChild !== null && firstChild.nodeType === Node.TEXT_NODE && firstChild === element.lastChild) {
    (firstChild as Text).data = text;
  } else {
    element.textContent = text;
  }
}

function stateBadge(status: string): HTMLElement {
  const state = stateOf(status);
  const badge = document.createElement("span");
  badge.className = `state tone-${state.tone}`;
  badge.append(drawIcon(state.icon), state.word);
  return badge;
}
