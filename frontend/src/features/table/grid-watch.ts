/**
 * Tells the two virtualizers of the runs table, rows and columns, of its size and of how far it is scrolled: both at
 * once, so that a turn of the wheel is one drawing, and without laying the page out in the midst of a frame.
 */
import type { Range, Rect, Virtualizer } from "@tanstack/react-virtual";
import { flushSync } from "react-dom";

import { FIXED } from "./grid-row";

type Grid = Virtualizer<HTMLDivElement, Element>;
type Tell = (offset: number, isScrolling: boolean) => void;

/** Milliseconds after which a table that is not scrolled any more stands still. */
const STILL = 150;

/** Tell how much of the table columns and rows have, the first time once it is on screen: to measure it before would lay it out twice. */
export function observeSize(instance: Grid, tell: (rect: Rect) => void): () => void {
  const element = instance.scrollElement;
  if (element === null) {
    return () => undefined;
  }
  let isFirst = true;
  const observer = new ResizeObserver(() => {
    const now = (): void => tell({ width: element.clientWidth - FIXED, height: element.clientHeight });
    if (isFirst) {
      isFirst = false;
      setTimeout(now);
    } else {
      now();
    }
  });
  observer.observe(element);
  return () => observer.disconnect();
}

/**
 * Which columns are drawn for those on screen: whole blocks of them, so that a turn of the wheel across seldom brings
 * others, and as many to the left of a place as to its right. The same list comes back for the same columns.
 */
export function columnsInBlocks(block: number): (range: Range) => number[] {
  let from = 0;
  let list: number[] = [];
  return ({ startIndex, endIndex, count, overscan }) => {
    const spare = overscan === 0 ? 0 : block;
    const first = spare === 0 ? startIndex : Math.floor(startIndex / block) * block;
    const many = Math.ceil((endIndex - startIndex + 1 + spare) / block) * block;
    const end = spare === 0 ? endIndex + 1 : Math.min(count, first + many);
    if (from !== first || list.length !== end - first) {
      from = first;
      list = Array.from({ length: end - first }, (_, at) => first + at);
    }
    return list;
  };
}

/** One scrolled element, and those who want to know of it. */
class Scrolled {
  private readonly ears = new Map<Tell, "top" | "left">();
  private readonly element: HTMLElement;
  private place = { top: 0, left: 0 };
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(element: HTMLElement) {
    this.element = element;
  }

  add(tell: Tell, way: "top" | "left"): () => void {
    if (this.ears.size === 0) {
      this.element.addEventListener("scroll", this.hear, { passive: true });
    }
    this.ears.set(tell, way);
    return () => {
      this.ears.delete(tell);
      if (this.ears.size === 0) {
        clearTimeout(this.timer);
        this.element.removeEventListener("scroll", this.hear);
      }
    };
  }

  private readonly hear = (): void => {
    const before = this.place;
    // Read before anything is drawn; afterwards the browser would have to lay the rows out to answer.
    const now = { top: this.element.scrollTop, left: this.element.scrollLeft };
    this.place = now;
    flushSync(() => this.ears.forEach((way, tell) => now[way] !== before[way] && tell(now[way], true)));
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.ears.forEach((way, tell) => tell(now[way], false)), STILL);
  };
}

const scrolled = new WeakMap<HTMLElement, Scrolled>();

/** Tell how far the table is scrolled. A table that has just been made is not, which need not be told. */
export function observeOffset(instance: Grid, tell: Tell): () => void {
  const element = instance.scrollElement;
  if (element === null) {
    return () => undefined;
  }
  const known = scrolled.get(element) ?? new Scrolled(element);
  scrolled.set(element, known);
  return known.add(tell, instance.options.horizontal ? "left" : "top");
}

const begun = new WeakSet<Grid>();

/** Scroll the table; not at its very start, when it is where it should be and the browser would lay it out to see that. */
export function scrollGrid(offset: number, options: { adjustments?: number | undefined; behavior?: ScrollBehavior | undefined }, instance: Grid): void {
  const target = offset + (options.adjustments ?? 0);
  if (target === 0 && !begun.has(instance)) {
    begun.add(instance);
    return;
  }
  begun.add(instance);
  instance.scrollElement?.scrollTo({
    [instance.options.horizontal ? "left" : "top"]: target,
    ...(options.behavior === undefined ? {} : { behavior: options.behavior }),
  });
}
