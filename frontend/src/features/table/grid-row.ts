/** One row of the runs table as elements: its name on the left, which stays, and its cells, which scroll. */
import { address } from "../../api/client";
import { TAGS, type RunsTable } from "../../api/runs";
import { colourOf } from "../../lib/colour";
import type { Column } from "../../lib/columns";
import { count } from "../../lib/format";
import type { Group, Line } from "../../lib/grouping";
import { yard } from "../../lib/yard-line";
import { drawIcon } from "../../ui/icon";
import { groupLook, isTimed, lookOf } from "./cell-look";
import { GridCell, write, type Place } from "./grid-cell";

export const ROW = 30;
/** The width of the names, which cover the rows' left end. */
export const FIXED = 214;
/** As many letters fit between tick, eye and star, even broad ones. Longer names are cut, each at the cost of a surface more. */
const NAME_LETTERS = 14;

export interface Across extends Place {
  column: Column;
}

/** All that rows are drawn from. */
export interface Scene {
  table: RunsTable;
  /** the table is changed in place; this tells rows to draw again */
  version: number;
  lines: readonly Line[];
  first: number;
  last: number;
  columns: readonly Across[];
  cursor: number;
  ticked: ReadonlySet<string>;
  hidden: ReadonlySet<string>;
  /** the runs in the charts, with their colours there */
  charted: ReadonlyMap<string, string>;
  folded: ReadonlySet<string>;
  experiments: ReadonlyMap<string, string>;
  now: number;
}

let made = 0;

/** How one set of columns becomes another. */
interface Turn {
  from: readonly Across[];
  to: readonly Across[];
  /** for each column of the new set its place in the old one, -1 where it has none */
  sources: readonly number[];
  /** places in the old set whose columns are gone */
  spare: readonly number[];
  /** whether the columns that stay are in the order in which they were */
  isInOrder: boolean;
}

let latest: Turn | null = null;

/** Compare two sets of columns. All rows on screen go through the same turn, so it is kept for the next of them. */
function turnOf(from: readonly Across[], to: readonly Across[]): Turn {
  if (latest?.from !== from || latest.to !== to) {
    const before = new Map(from.map(({ id }, at) => [id, at]));
    const sources = to.map(({ id }) => before.get(id) ?? -1);
    const kept = sources.filter((at) => at >= 0);
    const stays = new Set(kept);
    const spare = from.flatMap((_, at) => (stays.has(at) ? [] : [at]));
    latest = { from, to, sources, spare, isInOrder: kept.every((at, place) => place === 0 || at > (kept[place - 1] ?? 0)) };
  }
  return latest;
}

// Rows are copies of these: to copy a row costs the browser less than to make each of its parts.
const BODY = element("div", "grid-row", "row");
const NAME = element("div", "grid-name", "rowheader");
const RUN = runName();

/** What a run's and a group's row have in common. */
abstract class GridRow {
  readonly name: HTMLElement;
  readonly body = BODY.cloneNode() as HTMLElement;
  index = -1;
  private columns: readonly Across[] = [];
  /** one for each of the columns, in their order */
  protected cells: GridCell[] = [];

  constructor(name: HTMLElement) {
    made += 1;
    this.name = name;
    this.name.id = `row-${made}`;
    this.body.setAttribute("aria-owns", this.name.id);
  }

  abstract draw(scene: Scene, index: number): void;
  /** Write the cells again: some have come. */
  abstract refill(scene: Scene): void;

  /** The cell that an element lies in. */
  cellOf(found: Element): GridCell | undefined {
    return this.cells.find((cell) => cell.element === found);
  }

  holds(found: Element | null): boolean {
    return this.name.contains(found) || this.body.contains(found);
  }

  remove(): void {
    this.cells.forEach((cell) => cell.close());
    this.cells = [];
    this.columns = [];
    this.name.remove();
    this.body.remove();
  }

  protected stand(index: number): void {
    if (index !== this.index) {
      this.index = index;
      this.name.style.top = this.body.style.top = `${index * ROW}px`;
      this.body.setAttribute("aria-rowindex", String(index + 2));
    }
  }

  protected look(word: string): void {
    if (this.body.className !== `grid-row${word}`) {
      this.body.className = `grid-row${word}`;
      this.name.className = `grid-name${word}`;
    }
  }

  /** Have a cell for each column, those of columns gone serving for those that came. */
  protected layOut(columns: readonly Across[]): void {
    if (columns === this.columns) {
      return;
    }
    const { sources, spare, isInOrder } = turnOf(this.columns, columns);
    const before = this.cells;
    const free = spare.map((at) => before[at] as GridCell);
    // Those that serve another column are taken out first: then the others stand in order and need not be moved.
    free.forEach((cell) => cell.element.remove());
    const after = columns.map((place, at) => {
      const cell = before[sources[at] ?? -1] ?? free.pop() ?? new GridCell();
      cell.move(place);
      return cell;
    });
    free.forEach((cell) => cell.close());
    // Cells stand one after the other: to place each by itself would make a surface of each for the browser to keep.
    this.body.style.paddingLeft = `${FIXED + (columns[0]?.start ?? 0)}px`;
    let next: Element | null = null;
    for (let at = after.length - 1; at >= 0; at -= 1) {
      const { element } = after[at] as GridCell;
      if (!isInOrder || (sources[at] ?? -1) < 0) {
        this.body.insertBefore(element, next);
      }
      next = element;
    }
    this.cells = after;
    this.columns = columns;
  }
}

/** The row of a run. */
export class RunRow extends GridRow {
  id = "";
  starred = false;
  private seen: unknown[] = [];
  private eyed = "";
  private readonly tick: HTMLInputElement;
  private readonly eye: HTMLElement;
  private readonly dot: HTMLElement;
  private readonly link: HTMLAnchorElement;
  private readonly star: HTMLElement;

  constructor() {
    super(RUN.cloneNode(true) as HTMLElement);
    [this.tick, this.eye, this.link, this.star] = this.name.children as unknown as [HTMLInputElement, HTMLElement, HTMLAnchorElement, HTMLElement];
    this.dot = this.eye.firstElementChild as HTMLElement;
  }

  /** Draw the run of a line, unless all of it is drawn already. */
  draw(scene: Scene, index: number): void {
    const { table } = scene;
    const line = scene.lines[index];
    const row = line?.row ?? 0;
    const id = table.run_id[row] ?? "";
    const isTicked = scene.ticked.has(id);
    const isHidden = scene.hidden.has(id);
    const charted = scene.charted.get(id);
    const isCursor = index === scene.cursor;
    const seen = [index, row, id, table, scene.version, isTicked, isHidden, charted, isCursor, line?.group, scene.experiments];
    if (seen.every((value, at) => value === this.seen[at])) {
      // Other columns at most: what stands in those that stay is right.
      this.layOut(scene.columns);
      this.drawCells(scene, row, "new");
      return;
    }
    const isOther = id !== this.id;
    this.seen = seen;
    this.id = id;
    this.stand(index);
    this.look(`${isCursor ? " cursor" : ""}${isTicked ? " ticked" : ""}${isHidden ? " off" : ""}${line?.group === null ? "" : " inner"}`);
    this.body.setAttribute("aria-selected", String(isTicked));
    this.tick.checked = isTicked;
    this.drawName(table.name[row] ?? id, isOther);
    this.drawEye(isHidden, charted);
    this.drawStar(table.tags[TAGS.star]?.[row] === "1", isOther);
    this.layOut(scene.columns);
    this.drawCells(scene, row, "all");
  }

  refill(scene: Scene): void {
    const row = scene.lines[this.index]?.row ?? 0;
    this.drawStar(scene.table.tags[TAGS.star]?.[row] === "1", false);
    this.drawCells(scene, row, "all");
  }

  /** Draw again what changes with the time. */
  passTime(scene: Scene): void {
    this.drawCells(scene, scene.lines[this.index]?.row ?? 0, "timed");
  }

  private drawCells(scene: Scene, row: number, which: "all" | "new" | "timed"): void {
    const colour = scene.charted.get(this.id) ?? colourOf(this.id);
    this.cells.forEach((cell, at) => {
      const column = scene.columns[at]?.column;
      if (column !== undefined && (which === "all" || (which === "new" ? cell.isBlank : isTimed(column)))) {
        cell.show(lookOf(scene.table, column, row, scene.experiments, scene.now), column.key, colour);
      }
    });
  }

  private drawName(name: string, isOther: boolean): void {
    if (isOther || this.link.textContent !== name) {
      write(this.link, name);
      this.link.className = name.length > NAME_LETTERS ? "run-name clip" : "run-name";
      this.link.title = name;
      this.link.href = address(`/app/runs/${this.id}`);
      this.tick.setAttribute("aria-label", `Select ${name}`);
    }
  }

  private drawEye(isHidden: boolean, charted: string | undefined): void {
    const eyed = `${this.id} ${isHidden} ${charted ?? ""} ${this.link.title}`;
    if (eyed === this.eyed) {
      return;
    }
    this.eyed = eyed;
    const name = this.link.title;
    const colour = charted ?? colourOf(this.id);
    this.eye.title = isHidden ? "Show in the charts" : "Hide from the charts: in this view alone, whose address holds it";
    this.eye.setAttribute("aria-label", isHidden ? `Show ${name} in the charts` : `Hide ${name} from the charts`);
    this.eye.setAttribute("aria-pressed", String(isHidden));
    if (isHidden) {
      this.eye.replaceChildren(drawIcon("eye-off"));
      return;
    }
    this.dot.style.background = charted !== undefined ? colour : "none";
    this.dot.style.border = charted !== undefined ? "0" : `2px solid ${colour}`;
    if (this.dot.parentNode === null) {
      this.eye.replaceChildren(this.dot);
    }
  }

  private drawStar(starred: boolean, isOther: boolean): void {
    if (!isOther && starred === this.starred) {
      return;
    }
    const name = this.link.title;
    this.starred = starred;
    if (this.star.textContent !== (starred ? "★" : "☆")) {
      write(this.star, starred ? "★" : "☆");
      this.star.classList.toggle("on", starred);
    }
    this.star.title = starred ? `Take the star away: ${yard.untag([this.id], TAGS.star)}` : `Star: ${yard.tag([this.id], TAGS.star, "1")}`;
    this.star.setAttribute("aria-label", starred ? `Take the star from ${name}` : `Star ${name}`);
    this.star.setAttribute("aria-pressed", String(starred));
  }
}

/** The head of a group: how many runs, and mean, least and greatest of each metric. */
export class GroupRow extends GridRow {
  group: Group | null = null;
  private readonly fold = button("cell-button fold");
  private readonly title = element("b", "clip grow");
  private readonly many = element("span", "faint");

  constructor() {
    super(NAME.cloneNode() as HTMLElement);
    this.name.append(this.fold, this.title, this.many);
  }

  draw(scene: Scene, index: number): void {
    const group = scene.lines[index]?.group ?? null;
    if (group === null) {
      return;
    }
    const isFolded = scene.folded.has(group.id);
    this.group = group;
    this.stand(index);
    this.look(" group");
    this.fold.setAttribute("aria-expanded", String(!isFolded));
    this.fold.setAttribute("aria-label", `Group ${group.values.join(", ")}`);
    this.fold.replaceChildren(drawIcon(isFolded ? "right" : "down"));
    write(this.title, group.values.join(" · "));
    this.title.title = group.values.join(", ");
    write(this.many, count(group.rows.length, "run"));
    this.layOut(scene.columns);
    this.refill(scene);
  }

  refill(scene: Scene): void {
    const { group } = this;
    if (group !== null) {
      scene.columns.forEach(({ column }, at) => this.cells[at]?.show(groupLook(scene.table, column, group.rows), "", ""));
    }
  }
}

function element(tag: string, className: string, role?: string): HTMLElement {
  const made = document.createElement(tag);
  made.className = className;
  if (role !== undefined) {
    made.setAttribute("role", role);
  }
  return made;
}

function button(className: string): HTMLButtonElement {
  const made = document.createElement("button");
  made.type = "button";
  made.className = className;
  return made;
}

/** The name of a run with what can be done to it: tick, eye, link, star. */
function runName(): HTMLElement {
  const name = NAME.cloneNode() as HTMLElement;
  const tick = document.createElement("input");
  tick.type = "checkbox";
  tick.className = "tick";
  const eye = button("cell-button eye");
  eye.append(element("span", "dot"));
  const link = element("a", "run-name");
  link.append("");
  const star = button("cell-button star");
  star.append("☆");
  name.append(tick, eye, link, star);
  return name;
}
