/** One line chart on a canvas: uPlot keeps axes, cursor and zoom; the curves are drawn here. Knows no React. */
import uPlot from "uplot";

import { faded } from "../../lib/colour";
import { lostPlaces, readAt, reachOf, spanOf, type Curve, type Reading } from "../../lib/curves";
import { clock, duration, exact, grouped, short } from "../../lib/format";
import { logTicks, steady, ticksIn, type Range } from "../../lib/range";
import type { XAxis } from "../../lib/view";
import { token } from "../../ui/theme";
import { HoverList } from "./hover-list";

export interface PlotInput {
  curves: readonly Curve[];
  axis: XAxis;
  logX: boolean;
  logY: boolean;
  band: boolean;
  zoom: Range | null;
  /** panels with the same word share their cursor */
  sync: string;
  /** the range of values, where their unit gives it */
  fixed: Range | null;
  /** what happened along the axis: attempts, checkpoints, faults */
  marks?: readonly ChartMark[];
  /** a run to bring forward, e.g. the one under the pointer in the table */
  lit: string | null;
}

/** Something that happened at a place on the axis. */
export interface ChartMark {
  at: number;
  kind: "attempt" | "checkpoint" | "fault" | "note";
  label: string;
}

const MARK_TONES = { attempt: "--amber", checkpoint: "--green", fault: "--red", note: "--violet" } as const;

type OnZoom = (range: Range | null) => void;

/** A place on the axis as people read it. */
export function placeText(axis: XAxis, value: number): string {
  if (axis === "step") {
    return `step ${grouped(Math.round(value))}`;
  }
  return axis === "time" ? exact(value * 1000) : duration(value * 1000);
}

export class LinePlot {
  private plot: uPlot | null = null;
  private input: PlotInput | null = null;
  private made = "";
  private xRange: Range = [0, 1];
  private yRange: Range | null = null;
  private yFor = "";
  private readonly hover: HoverList;
  private readonly watcher: ResizeObserver;
  private readonly host: HTMLElement;
  private readonly onZoom: OnZoom;

  constructor(host: HTMLElement, onZoom: OnZoom) {
    this.host = host;
    this.onZoom = onZoom;
    this.hover = new HoverList(host);
    this.watcher = new ResizeObserver(() => this.resize());
    this.watcher.observe(host);
  }

  /** Draw other curves, or the same in another way. */
  update(input: PlotInput, colours: number): void {
    this.input = input;
    this.setRanges();
    const made = [input.axis, input.logX, input.logY, input.sync, colours].join();
    if (made !== this.made || this.plot === null) {
      this.made = made;
      this.make();
    } else {
      this.plot.setData([[...this.xRange], [null, null]]);
    }
  }

  destroy(): void {
    this.watcher.disconnect();
    this.plot?.destroy();
    this.plot = null;
    this.hover.remove();
  }

  /** The canvas as it is now, for export. */
  canvas(): HTMLCanvasElement | null {
    return this.plot?.ctx.canvas ?? null;
  }

  private setRanges(): void {
    const { input } = this;
    if (input === null) {
      return;
    }
    const span = input.zoom ?? spanOf(input.curves, input.logX) ?? (input.logX ? [1, 10] : [0, 1]);
    // Lone points would lie on the edge: give them room.
    const lone = input.zoom === null && !input.logX && input.curves.every((curve) => curve.x.length < 2);
    const room = span[0] === span[1] ? 0.5 : lone ? (span[1] - span[0]) * 0.06 : 0;
    this.xRange = [span[0] - room, span[1] + room];
    if (input.logX && this.xRange[0] <= 0) {
      this.xRange = [Math.min(1, this.xRange[1] / 10), this.xRange[1]];
    }
    const ids = input.curves.map((curve) => curve.id).join();
    const isFor = [ids, input.axis, input.logX, input.logY, input.band, input.zoom?.join("~") ?? "", input.curves[0]?.raw === null].join("|");
    const reach = reachOf(input.curves, this.xRange, input.logY, input.band);
    this.yRange = input.fixed !== null && !input.logY ? input.fixed : steady(this.yFor === isFor ? this.yRange : null, reach, input.logY);
    this.yFor = isFor;
  }

  private size(): { width: number; height: number } {
    return { width: Math.max(120, this.host.clientWidth), height: Math.max(80, this.host.clientHeight) };
  }

  private resize(): void {
    const size = this.size();
    if (this.plot !== null && (size.width !== this.plot.width || size.height !== this.plot.height)) {
      this.plot.setSize(size);
    }
  }

  private make(): void {
    const { input } = this;
    if (input === null) {
      return;
    }
    this.plot?.destroy();
    const ink = token("--ink-3");
    const grid = token("--grid");
    const font = `11px ${token("--font")}`;
    const axis = { stroke: ink, font, ticks: { show: false }, grid: { stroke: grid, width: 1 } };
    this.plot = new uPlot(
      {
        ...this.size(),
        padding: [8, 10, 0, 0],
        legend: { show: false },
        scales: {
          x: { time: input.axis === "time", distr: input.logX ? 3 : 1, range: () => [...this.xRange] },
          y: { distr: input.logY ? 3 : 1, range: () => [...(this.yRange ?? [0, 1])] },
        },
        series: [{}, { paths: () => null, points: { show: false } }],
        axes: [
          { ...axis, ...this.xTicks(input), size: 22, gap: 3, space: 40, ...this.xLabels() },
          { ...axis, ...(input.logY ? ticksOf(true) : { splits: (plot, _, low, high) => ticksIn(low, high, plot.bbox.height / (devicePixelRatio || 1) / 16) }), size: 48, gap: 4, space: 20, values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : short(tick))) },
        ],
        cursor: {
          y: false,
          points: { show: false },
          drag: { x: true, y: false, setScale: false },
          sync: { key: input.sync, scales: ["x", null], setSeries: false },
        },
        hooks: {
          draw: [(plot) => this.paint(plot)],
          setSelect: [(plot) => this.selected(plot)],
          setCursor: [(plot) => this.pointed(plot)],
        },
      },
      [[...this.xRange], [null, null]],
      this.host,
    );
    this.plot.over.addEventListener("dblclick", () => this.onZoom(null));
    this.plot.over.addEventListener("mouseleave", () => this.hover.hide());
  }

  private xTicks(input: PlotInput): Partial<uPlot.Axis> {
    if (input.logX || input.axis === "time") {
      return ticksOf(input.logX);
    }
    const steps = input.axis === "step" ? STEPS : SPANS;
    return { splits: (plot, _, low, high) => ticksIn(low, high, plot.bbox.width / (devicePixelRatio || 1) / 40, steps) };
  }

  private xLabels(): Partial<uPlot.Axis> {
    const axis = this.input?.axis;
    if (axis === "step") {
      return { values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : stepLabel(tick))) };
    }
    if (axis === "relative") {
      return { values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : duration(tick * 1000))) };
    }
    return { values: (_, ticks) => ticks.map((tick) => timeLabel(tick, this.xRange)) };
  }

  private selected(plot: uPlot): void {
    const { left, width } = plot.select;
    if (width > 3) {
      const range: Range = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
      plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
      this.onZoom(this.input?.axis === "step" ? [Math.floor(range[0]), Math.ceil(range[1])] : [round3(range[0]), round3(range[1])]);
    }
  }

  private pointed(plot: uPlot): void {
    const left = plot.cursor.left ?? -1;
    const { input } = this;
    if (input === null || left < 0 || !plot.over.matches(":hover")) {
      this.hover.hide();
      return;
    }
    const place = plot.posToVal(left, "x");
    const slack = Math.max((this.xRange[1] - this.xRange[0]) * 0.04, 1);
    const readings = readAt(input.curves, place, slack);
    const first = readings[0];
    const head = placeText(input.axis, first === undefined ? place : (first.curve.x[first.at] ?? place));
    const near = (input.marks ?? []).filter((mark) => Math.abs(plot.valToPos(mark.at, "x") - left) < 5).map((mark) => mark.label);
    const lost = input.curves.slice(0, MOST_FAULTS).some((curve) => lostPlaces(curve).some((one) => Math.abs(plot.valToPos(one, "x") - left) < 5));
    this.hover.show([head, ...near, ...(lost ? ["not a number (NaN)"] : [])].join(" · "), readings, { left: left + plot.over.offsetLeft, top: plot.cursor.top ?? 0 }, this.nearestTo(plot, readings));
  }

  private nearestTo(plot: uPlot, readings: readonly Reading[]): string | null {
    const top = plot.cursor.top ?? 0;
    let best: string | null = null;
    let gap = 24;
    for (const { curve, value } of readings) {
      const away = Math.abs(plot.valToPos(value, "y") - top);
      if (away < gap) {
        gap = away;
        best = curve.id;
      }
    }
    return best;
  }

  private paint(plot: uPlot): void {
    const { input } = this;
    if (input === null) {
      return;
    }
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    const scale = window.devicePixelRatio || 1;
    const quiet = input.lit !== null && input.curves.some((curve) => curve.id === input.lit);
    if (input.band) {
      input.curves.forEach((curve) => this.paintBand(plot, curve, quiet && curve.id !== input.lit ? 0.03 : input.curves.length > 12 ? 0.07 : 0.14));
    }
    const thin = input.curves.length > 30 ? 1 : 1.5;
    for (const curve of input.curves) {
      const faint = quiet && curve.id !== input.lit;
      if (curve.raw !== null && !faint) {
        this.paintLine(plot, curve.x, curve.raw, faded(curve.colour, 0.22), thin * scale, false);
      }
      const width = (quiet && !faint ? 2.5 : thin) * scale;
      this.paintLine(plot, curve.x, curve.y, faint ? faded(curve.colour, 0.18) : curve.colour, width, curve.dashed);
    }
    this.paintMarks(plot, input, scale);
    ctx.restore();
  }

  /** Attempts and faults are lines through the chart, checkpoints are ticks at its foot; NaN is a cross there. */
  private paintMarks(plot: uPlot, input: PlotInput, scale: number): void {
    const { ctx, bbox } = plot;
    const foot = bbox.top + bbox.height;
    for (const mark of input.marks ?? []) {
      const left = Math.round(plot.valToPos(mark.at, "x", true)) + 0.5;
      ctx.strokeStyle = token(MARK_TONES[mark.kind]);
      ctx.lineWidth = scale;
      ctx.setLineDash(mark.kind === "checkpoint" ? [] : [4 * scale, 3 * scale]);
      ctx.beginPath();
      ctx.moveTo(left, mark.kind === "checkpoint" ? foot - 9 * scale : bbox.top);
      ctx.lineTo(left, foot);
      ctx.stroke();
    }
    ctx.setLineDash([]);
    ctx.strokeStyle = token("--red");
    ctx.lineWidth = 1.5 * scale;
    for (const curve of input.curves.slice(0, MOST_FAULTS)) {
      for (const place of lostPlaces(curve)) {
        const left = plot.valToPos(place, "x", true);
        const [high, low, half] = [foot - 10 * scale, foot - 4 * scale, 3 * scale];
        ctx.beginPath();
        ctx.moveTo(left - half, high);
        ctx.lineTo(left + half, low);
        ctx.moveTo(left + half, high);
        ctx.lineTo(left - half, low);
        ctx.stroke();
      }
    }
  }

  private paintLine(plot: uPlot, xs: Float64Array, ys: Float64Array, colour: string, width: number, dashed: boolean): void {
    const { ctx } = plot;
    const log = this.input?.logY === true;
    const logX = this.input?.logX === true;
    ctx.beginPath();
    ctx.strokeStyle = colour;
    ctx.lineWidth = width;
    ctx.lineJoin = "round";
    ctx.setLineDash(dashed ? [5, 4] : []);
    let pen = false;
    let stretch = 0;
    let last: [number, number] = [0, 0];
    // A point without neighbours is no line: it is drawn as a dot.
    const alone: [number, number][] = [];
    const lift = (): void => {
      if (stretch === 1) {
        alone.push(last);
      }
      pen = false;
      stretch = 0;
    };
    for (let at = 0; at < xs.length; at += 1) {
      const x = xs[at] ?? Number.NaN;
      const y = ys[at] ?? Number.NaN;
      if (!Number.isFinite(y) || (log && y <= 0) || (logX && x <= 0)) {
        lift();
        continue;
      }
      const left = plot.valToPos(x, "x", true);
      const top = plot.valToPos(y, "y", true);
      if (pen) {
        ctx.lineTo(left, top);
      } else {
        ctx.moveTo(left, top);
      }
      pen = true;
      stretch += 1;
      last = [left, top];
    }
    lift();
    ctx.stroke();
    ctx.fillStyle = colour;
    for (const [left, top] of alone) {
      ctx.beginPath();
      ctx.arc(left, top, 2.5 * (window.devicePixelRatio || 1), 0, Math.PI * 2);
      ctx.fill();
    }
  }

  private paintBand(plot: uPlot, curve: Curve, alpha: number): void {
    const { x, low, high } = curve;
    if (low === null || high === null) {
      return;
    }
    const { ctx } = plot;
    const log = this.input?.logY === true;
    const usable = (at: number): boolean => {
      const bottom = low[at] ?? Number.NaN;
      return Number.isFinite(bottom) && (!log || bottom > 0) && (this.input?.logX !== true || (x[at] ?? 0) > 0);
    };
    ctx.fillStyle = faded(curve.colour, alpha);
    let from = 0;
    while (from < x.length) {
      if (!usable(from)) {
        from += 1;
        continue;
      }
      let to = from;
      ctx.beginPath();
      while (to < x.length && usable(to)) {
        ctx.lineTo(plot.valToPos(x[to] ?? 0, "x", true), plot.valToPos(high[to] ?? 0, "y", true));
        to += 1;
      }
      for (let back = to - 1; back >= from; back -= 1) {
        ctx.lineTo(plot.valToPos(x[back] ?? 0, "x", true), plot.valToPos(low[back] ?? 0, "y", true));
      }
      ctx.closePath();
      ctx.fill();
      from = to;
    }
  }
}

/** Curves of which points that are no number are marked. */
const MOST_FAULTS = 20;
const STEPS = [1, 2, 5].flatMap((lead) => Array.from({ length: 12 }, (_, power) => lead * 10 ** power)).sort((a, b) => a - b);
const SPANS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800];

function stepLabel(step: number): string {
  return Math.abs(step) >= 10_000 ? `${short(step / 1000)}k` : grouped(step);
}

function timeLabel(seconds: number | null, range: Range): string {
  if (seconds === null) {
    return "";
  }
  const ms = seconds * 1000;
  if (range[1] - range[0] < 300) {
    return clock(ms);
  }
  const [date = "", time = ""] = exact(ms).split(" ");
  return range[1] - range[0] > 2 * 86_400 ? date.slice(5) : time.slice(0, 5);
}

function round3(value: number): number {
  return Math.round(value * 1000) / 1000;
}

/** Our own ticks for a logarithmic axis. */
function ticksOf(isLog: boolean): Partial<uPlot.Axis> {
  return isLog ? { splits: (_, __, low, high) => logTicks(low, high) } : {};
}
