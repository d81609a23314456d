/**
 * Draws the rows of the runs table straight into the page: a wheel's turn moves rows that left the screen to where
 * others come in, and writes their words anew. React would make and compare a thousand elements in each frame.
 */
import { setLit } from "../chart/lit";
import { GroupRow, RunRow, type Scene } from "./grid-row";

export interface RowActions {
  tick: (run: string, index: number, through: boolean) => void;
  hide: (run: string) => void;
  star: (run: string, on: boolean) => void;
  fold: (group: string) => void;
  point: (index: number) => void;
  open: (run: string) => void;
}

type Row = RunRow | GroupRow;

/** Milliseconds between two looks at the clock, and after which rows that stand still are put in order. */
const TICK = 1000;
const STILL = 200;

export class GridRows {
  private readonly rows = new Map<number, Row>();
  private readonly owners = new WeakMap<Element, Row>();
  private scene: Scene | null = null;
  private actions: RowActions | null = null;
  private hot: Row | null = null;
  private stillTimer: ReturnType<typeof setTimeout> | null = null;
  private readonly timer = setInterval(() => this.passTime(), TICK);
  private readonly stops: (() => void)[] = [];
  private readonly names: HTMLElement;
  private readonly bodies: HTMLElement;

  constructor(names: HTMLElement, bodies: HTMLElement) {
    this.names = names;
    this.bodies = bodies;
    for (const pane of [names, bodies]) {
      this.listen(pane, "click", (event) => this.click(event as MouseEvent));
      this.listen(pane, "pointerover", (event) => this.over(event.target as Element));
      this.listen(pane, "pointerleave", () => this.heat(null));
    }
  }

  /** Draw the rows of a scene: those that are right already are left alone. */
  draw(scene: Scene, actions: RowActions): void {
    this.scene = scene;
    this.actions = actions;
    const free: Row[] = [];
    for (const [index, row] of this.rows) {
      const line = scene.lines[index];
      if (index < scene.first || index > scene.last || line === undefined || isGroup(line.row) !== row instanceof GroupRow) {
        this.rows.delete(index);
        free.push(row);
      }
    }
    for (let index = scene.first; index <= scene.last; index += 1) {
      const line = scene.lines[index];
      if (line !== undefined) {
        this.rowAt(index, isGroup(line.row), free).draw(scene, index);
      }
    }
    free.forEach((row) => row.remove());
    if (this.hot instanceof RunRow) {
      setLit(this.hot.id);
    }
    this.settleSoon();
  }

  /** The table was filled in place: write what came into the rows that stand there. */
  refill(): void {
    const { scene } = this;
    if (scene !== null) {
      this.rows.forEach((row) => row.refill(scene));
    }
  }

  /** Take everything away. */
  close(): void {
    clearInterval(this.timer);
    if (this.stillTimer !== null) {
      clearTimeout(this.stillTimer);
    }
    this.stops.forEach((stop) => stop());
    this.rows.forEach((row) => row.remove());
    this.rows.clear();
    setLit(null);
  }

  private rowAt(index: number, isGroupRow: boolean, free: Row[]): Row {
    const known = this.rows.get(index);
    if (known !== undefined) {
      return known;
    }
    const at = free.findIndex((row) => row instanceof GroupRow === isGroupRow);
    const row = at >= 0 ? (free.splice(at, 1)[0] as Row) : this.make(isGroupRow);
    this.rows.set(index, row);
    const focused = document.activeElement;
    if (at >= 0 && focused !== null && row.holds(focused)) {
      // The focus does not wander to another run unseen.
      this.names.closest<HTMLElement>("[role=grid]")?.focus({ preventScroll: true });
    }
    return row;
  }

  private make(isGroupRow: boolean): Row {
    const row = isGroupRow ? new GroupRow() : new RunRow();
    this.names.append(row.name);
    this.bodies.append(row.body);
    this.owners.set(row.name, row);
    this.owners.set(row.body, row);
    return row;
  }

  /** Once nothing moves, the elements are put in the order in which they stand, for those who tab or listen. */
  private settleSoon(): void {
    if (this.stillTimer !== null) {
      clearTimeout(this.stillTimer);
    }
    this.stillTimer = setTimeout(() => {
      const wanted = [...this.rows.entries()].toSorted(([a], [b]) => a - b).map(([, row]) => row);
      const isFocused = wanted.some((row) => row.holds(document.activeElement));
      if (!isFocused && wanted.some((row, at) => this.names.children[at] !== row.name)) {
        this.names.append(...wanted.map((row) => row.name));
        this.bodies.append(...wanted.map((row) => row.body));
      }
    }, STILL);
  }

  private passTime(): void {
    const { scene } = this;
    if (scene !== null && !document.hidden) {
      const now = { ...scene, now: Date.now() };
      this.rows.forEach((row) => row instanceof RunRow && row.passTime(now));
    }
  }

  private listen(pane: HTMLElement, kind: string, act: (event: Event) => void): void {
    pane.addEventListener(kind, act);
    this.stops.push(() => pane.removeEventListener(kind, act));
  }

  private ownerOf(found: Element): Row | null {
    const part = found.closest(".grid-name, .grid-row");
    return part === null ? null : (this.owners.get(part) ?? null);
  }

  private click(event: MouseEvent): void {
    const found = event.target as Element;
    const row = this.ownerOf(found);
    const { actions } = this;
    if (row === null || actions === null) {
      return;
    }
    if (row instanceof GroupRow) {
      if (found.closest(".fold") !== null && row.group !== null) {
        actions.fold(row.group.id);
      }
      return;
    }
    const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (found.closest(".tick") !== null) {
      actions.tick(row.id, row.index, event.shiftKey);
    } else if (found.closest(".eye") !== null) {
      actions.hide(row.id);
    } else if (found.closest(".star") !== null) {
      actions.star(row.id, !row.starred);
    } else if (found.closest(".run-name") !== null && isPlain) {
      event.preventDefault();
      actions.open(row.id);
      return;
    }
    actions.point(row.index);
  }

  private over(found: Element): void {
    const row = this.ownerOf(found);
    this.heat(row);
    const part = found.closest(".grid-td");
    const cell = part === null ? undefined : row?.cellOf(part);
    if (part !== null && cell !== undefined && cell.full !== "") {
      (part as HTMLElement).title = cell.full;
    }
  }

  /** The row under the pointer is lit in both panes, and its curve in the charts. */
  private heat(row: Row | null): void {
    if (row === this.hot) {
      return;
    }
    [this.hot?.name, this.hot?.body].forEach((part) => part?.removeAttribute("data-hot"));
    [row?.name, row?.body].forEach((part) => part?.setAttribute("data-hot", ""));
    this.hot = row;
    setLit(row instanceof RunRow ? row.id : null);
  }
}

function isGroup(row: number | null): boolean {
  return row === null;
}
