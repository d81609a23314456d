/** The runs page as an address: what is in the URL, and nothing else, makes the view. Pure. */

export type XAxis = "step" | "time" | "relative";
export type Pane = "both" | "table" | "charts";
export type Plot = "lines" | "scatter" | "parallel" | "bar" | "box";

export interface View {
  experiments: string[];
  filter: string;
  /** quick filters beside it: failed, day, by:NAME */
  only: string[];
  /** a column id, with a leading minus for descending */
  sort: string;
  deleted: boolean;
  /** null stands for the columns a page starts with */
  columns: string[] | null;
  group: string[];
  ticked: string[];
  hidden: string[];
  pane: Pane;
  /** share of the width that the table has, in percent */
  split: number;
  plot: Plot;
  x: XAxis;
  logX: boolean;
  logY: boolean;
  smoothing: number;
  band: boolean;
  orphans: boolean;
  search: string;
  pinned: string[];
  folded: string[];
  zoom: readonly [number, number] | null;
  /** axes of scatter, bar, box and parallel coordinates: column ids */
  axes: string[];
}

export const START: View = {
  experiments: [],
  filter: "",
  only: [],
  sort: "-attribute:started",
  deleted: false,
  columns: null,
  group: [],
  ticked: [],
  hidden: [],
  pane: "both",
  split: 54,
  plot: "lines",
  x: "step",
  logX: false,
  logY: false,
  smoothing: 0,
  band: true,
  orphans: false,
  search: "",
  pinned: [],
  folded: [],
  zoom: null,
  axes: [],
};

export type Search = Record<string, string>;

const LISTS = {
  experiments: "exp",
  only: "only",
  group: "group",
  ticked: "ticked",
  hidden: "hidden",
  pinned: "pin",
  folded: "fold",
  axes: "axes",
} as const satisfies Partial<Record<keyof View, string>>;
const FLAGS = {
  deleted: "deleted",
  logX: "logx",
  logY: "logy",
  orphans: "rolledback",
} as const satisfies Partial<Record<keyof View, string>>;
const WORDS = {
  filter: "filter",
  sort: "sort",
  search: "search",
} as const satisfies Partial<Record<keyof View, string>>;

const PANES: readonly string[] = ["both", "table", "charts"];
const PLOTS: readonly string[] = ["lines", "scatter", "parallel", "bar", "box"];
const AXES: readonly string[] = ["step", "time", "relative"];

/** Join names into one word of an address; a comma inside a name is kept. */
export function joinList(items: readonly string[]): string {
  return items.map((item) => item.replace(/[~,]/g, (sign) => (sign === "~" ? "~0" : "~1"))).join(",");
}

/** Take such a word apart again. */
export function splitList(text: string | undefined): string[] {
  if (text === undefined || text === "") {
    return [];
  }
  return text.split(",").map((item) => item.replace(/~[01]/g, (sign) => (sign === "~0" ? "~" : ",")));
}

function numberIn(text: string | undefined, low: number, high: number, otherwise: number): number {
  const value = Number(text);
  return text === undefined || text === "" || !Number.isFinite(value) ? otherwise : Math.min(high, Math.max(low, value));
}

function oneOf<T extends string>(text: string | undefined, words: readonly string[], otherwise: T): T {
  return text !== undefined && words.includes(text) ? (text as T) : otherwise;
}

/** Read a zoom: `first~last`. */
export function readZoom(text: string | undefined): readonly [number, number] | null {
  const ends = (text ?? "").split("~").map(Number);
  const [first, last] = ends;
  const good = ends.length === 2 && ends.every(Number.isFinite) && first !== undefined && last !== undefined;
  return good && first < last ? [first, last] : null;
}

/** Read a view from the parts of an address; anything unknown is left at its start. */
export function readView(search: Search): View {
  const view: View = { ...START };
  for (const [field, key] of Object.entries(LISTS) as [keyof typeof LISTS, string][]) {
    view[field] = splitList(search[key]);
  }
  for (const [field, key] of Object.entries(FLAGS) as [keyof typeof FLAGS, string][]) {
    view[field] = search[key] === "1";
  }
  for (const [field, key] of Object.entries(WORDS) as [keyof typeof WORDS, string][]) {
    view[field] = search[key] ?? START[field];
  }
  view.columns = search.cols === undefined ? null : splitList(search.cols);
  view.pane = oneOf(search.pane, PANES, START.pane);
  view.plot = oneOf(search.plot, PLOTS, START.plot);
  view.x = oneOf(search.x, AXES, START.x);
  view.band = search.band !== "0";
  view.split = numberIn(search.split, 15, 85, START.split);
  view.smoothing = numberIn(search.smooth, 0, 0.99, START.smoothing);
  view.zoom = readZoom(search.zoom);
  return view;
}

/** Write a view as the parts of an address; what is as at the start is left out. */
export function writeView(view: View): Search {
  const search: Search = {};
  const put = (key: string, value: string, start: string): void => {
    if (value !== start) {
      search[key] = value;
    }
  };
  for (const [field, key] of Object.entries(LISTS) as [keyof typeof LISTS, string][]) {
    put(key, joinList(view[field]), "");
  }
  for (const [field, key] of Object.entries(FLAGS) as [keyof typeof FLAGS, string][]) {
    put(key, view[field] ? "1" : "", "");
  }
  for (const [field, key] of Object.entries(WORDS) as [keyof typeof WORDS, string][]) {
    put(key, view[field], START[field]);
  }
  if (view.columns !== null) {
    search.cols = joinList(view.columns);
  }
  put("pane", view.pane, START.pane);
  put("plot", view.plot, START.plot);
  put("x", view.x, START.x);
  put("band", view.band ? "1" : "0", "1");
  put("split", String(Math.round(view.split)), String(START.split));
  put("smooth", String(view.smoothing), String(START.smoothing));
  put("zoom", view.zoom === null ? "" : `${view.zoom[0]}~${view.zoom[1]}`, "");
  return search;
}

/** What a step back undoes: what changes which runs or which range one looks at. */
const STEPS: readonly (keyof View)[] = ["experiments", "filter", "only", "group", "deleted", "plot", "pane", "zoom"];

/** Whether a change is one that the browser's back button should undo. */
export function isStep(before: View, part: Partial<View>): boolean {
  return STEPS.some((field) => field in part && JSON.stringify(part[field]) !== JSON.stringify(before[field]));
}
