/** The list that reads all curves at the cursor, sorted by value. Plain DOM: it changes with every move. */
import type { Reading } from "../../lib/curves";
import { short } from "../../lib/format";

const MOST = 14;

export class HoverList {
  private readonly box: HTMLDivElement;
  private readonly host: HTMLElement;

  constructor(host: HTMLElement) {
    this.host = host;
    this.box = document.createElement("div");
    this.box.className = "hover-list";
    this.box.hidden = true;
    document.body.append(this.box);
  }

  /** Show readings beside the cursor. */
  show(head: string, readings: readonly Reading[], at: { left: number; top: number }, nearest: string | null): void {
    if (readings.length === 0) {
      this.hide();
      return;
    }
    this.box.replaceChildren(line("hover-head", head));
    const shown = around(readings, nearest);
    for (const reading of shown) {
      this.box.append(row(reading, reading.curve.id === nearest));
    }
    if (readings.length > shown.length) {
      this.box.append(line("hover-more", `and ${readings.length - shown.length} more`));
    }
    this.box.hidden = false;
    this.place(at);
  }

  hide(): void {
    this.box.hidden = true;
  }

  remove(): void {
    this.box.remove();
  }

  private place(at: { left: number; top: number }): void {
    const host = this.host.getBoundingClientRect();
    const size = this.box.getBoundingClientRect();
    const x = host.left + at.left;
    const right = x + 14 + size.width > window.innerWidth - 8;
    const top = Math.max(8, Math.min(host.top + at.top - 10, window.innerHeight - size.height - 8));
    this.box.style.left = `${right ? Math.max(8, x - 14 - size.width) : x + 14}px`;
    this.box.style.top = `${top}px`;
  }
}

/** As many readings as fit, around the one the pointer is at. */
function around(readings: readonly Reading[], nearest: string | null): readonly Reading[] {
  const at = readings.findIndex((reading) => reading.curve.id === nearest);
  const from = Math.max(0, Math.min(at - Math.floor(MOST / 2), readings.length - MOST));
  return readings.slice(from, from + MOST);
}

function line(name: string, text: string): HTMLElement {
  const element = document.createElement("div");
  element.className = name;
  element.textContent = text;
  return element;
}

function row({ curve, at, value }: Reading, isNearest: boolean): HTMLElement {
  const element = document.createElement("div");
  element.className = isNearest ? "hover-row near" : "hover-row";
  const dot = document.createElement("span");
  dot.className = "dot";
  dot.style.background = curve.colour;
  const low = curve.low?.[at];
  const high = curve.high?.[at];
  const spread = low !== undefined && high !== undefined && low !== high ? `${short(low)}–${short(high)}` : "";
  element.append(dot, line("hover-name", curve.name), line("hover-value", short(value)), line("hover-spread", spread));
  return element;
}
