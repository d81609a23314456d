/** A panel: one metric over the runs that are shown. React mounts and feeds the plot, nothing more. */
import { useEffect, useMemo, useRef, useState, type ReactElement, type ReactNode } from "react";

import type { Series, Want } from "../../api/series";
import { coloursOf } from "../../lib/colour";
import { brokenAt, curveOf, meanOf, stepsIn, type Curve } from "../../lib/curves";
import type { Range } from "../../lib/range";
import type { XAxis } from "../../lib/view";
import { fixedRange } from "../../lib/metric-names";
import { Dialog } from "../../ui/menu";
import { IconButton } from "../../ui/parts";
import { useColours } from "../../ui/theme";
import { useSeries } from "../table/sparkline";
import { saveCsv, savePng } from "./export";
import { LinePlot, type ChartMark } from "./line-plot";
import { useLit } from "./lit";

export interface ChartRun {
  id: string;
  name: string;
  start: number | null;
  /** the group it is drawn with: one line for all of it */
  group?: { id: string; name: string; colour: string };
}

export interface ChartSettings {
  axis: XAxis;
  logX: boolean;
  logY: boolean;
  smoothing: number;
  band: boolean;
  orphans: boolean;
  zoom: Range | null;
  onZoom: (zoom: Range | null) => void;
  /** places where lines are interrupted */
  breaks?: readonly number[];
  marks?: readonly ChartMark[];
}

interface Props {
  metric: string;
  title: string;
  runs: readonly ChartRun[];
  settings: ChartSettings;
  sync: string;
  pinned?: boolean;
  onPin?: () => void;
  large?: boolean;
}

/** How finely to ask: fewer points a run where there are many. */
export function pointsFor(runs: number, large: boolean): number {
  const fine = large ? 1000 : 400;
  return runs > 50 ? fine / 4 : runs > 15 ? fine / 2 : fine;
}

/** What a panel draws, and how far it has come. */
export interface Drawn {
  curves: Curve[];
  series: Series[];
  loading: boolean;
  fault: string | null;
}

function useCurves({ metric, runs, settings, large }: Props): Drawn {
  const ids = useMemo(() => runs.map((run) => run.id), [runs]);
  const points = pointsFor(ids.length, large === true);
  const base = useMemo<Want>(() => ({ runs: ids, key: metric, points, span: null, orphans: false }), [ids, metric, points]);
  const whole = useSeries(base);
  const starts = useMemo(() => new Map(runs.map((run) => [run.id, run.start])), [runs]);
  const { zoom, axis, breaks } = settings;
  const span = useMemo(() => (zoom === null ? null : stepsIn(whole.series, axis, starts, zoom)), [zoom, whole.series, axis, starts]);
  const spanKey = span === null ? "" : span.join("~");
  const closer = useMemo<Want | null>(
    () => (spanKey === "" ? null : { ...base, span: spanKey.split("~").map(Number) as unknown as Range }),
    [base, spanKey],
  );
  const zoomed = useSeries(closer);
  const lost = useSeries(useMemo<Want | null>(() => (settings.orphans ? { ...base, orphans: true } : null), [base, settings.orphans]));
  const series = closer !== null && !zoomed.loading && zoomed.fault === null ? zoomed.series : whole.series;
  const curves = useMemo(() => {
    const paint = coloursOf(ids);
    const looks = new Map(runs.map((run) => [run.id, { name: run.name, colour: paint.get(run.id) ?? "#888888", start: run.start }]));
    const none = { name: "", colour: "#888888", start: null };
    const found = [
      ...lost.series.map((one) => curveOf(one, { ...(looks.get(one.run_id) ?? none), dashed: true }, axis, 0)),
      ...series.map((one) => curveOf(one, looks.get(one.run_id) ?? none, axis, settings.smoothing)),
    ];
    if (runs.some((run) => run.group !== undefined)) {
      return byGroup(runs, found.filter((curve) => !curve.dashed));
    }
    return breaks === undefined ? found : found.map((curve) => brokenAt(curve, breaks));
  }, [runs, ids, series, lost.series, axis, settings.smoothing, breaks]);
  return { curves, series, loading: whole.loading, fault: whole.fault ?? zoomed.fault };
}

/** One curve a group: the mean of its runs. */
function byGroup(runs: readonly ChartRun[], curves: readonly Curve[]): Curve[] {
  const groups = new Map<string, { look: NonNullable<ChartRun["group"]>; runs: Set<string> }>();
  for (const run of runs) {
    if (run.group !== undefined) {
      const known = groups.get(run.group.id) ?? { look: run.group, runs: new Set<string>() };
      known.runs.add(run.id);
      groups.set(run.group.id, known);
    }
  }
  return [...groups.values()].flatMap(({ look, runs: members }) => {
    const own = curves.filter((curve) => members.has(curve.id));
    return own.length === 0 ? [] : [meanOf(own, { ...look, name: own.length > 1 ? `${look.name} (${own.length} runs)` : look.name })];
  });
}

function lastStep(series: readonly Series[]): number {
  return series.reduce((most, one) => Math.max(most, one.step[one.step.length - 1] ?? 0), 0);
}

export function Panel(props: Props): ReactElement {
  const drawn = useCurves(props);
  return <PanelFrame {...props} drawn={drawn} enlarged={<Panel {...props} large sync={`${props.sync}-large`} />} />;
}

interface FrameProps extends Omit<Props, "large"> {
  drawn: Drawn;
  large?: boolean;
  /** further tools in the head */
  tools?: ReactNode;
  /** the same panel, large, for the dialog */
  enlarged: ReactNode;
}

/** The plot with its head and tools, whatever it draws. */
export function PanelFrame(props: FrameProps): ReactElement {
  const { metric, title, runs, settings, sync } = props;
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<LinePlot | null>(null);
  const colours = useColours();
  const [logY, setLogY] = useState<boolean | null>(null);
  const [open, setOpen] = useState(false);
  const { curves, series, loading, fault } = props.drawn;
  const zoomRef = useRef(settings.onZoom);
  useEffect(() => {
    zoomRef.current = settings.onZoom;
  });
  useEffect(() => {
    if (host.current === null) {
      return undefined;
    }
    const made = new LinePlot(host.current, (range) => zoomRef.current(range));
    plot.current = made;
    return () => made.destroy();
  }, []);
  const isLogY = logY ?? settings.logY;
  const { axis, logX, band, zoom, marks } = settings;
  const lit = useLit();
  useEffect(() => {
    plot.current?.update({ curves, axis, logX, logY: isLogY, band, zoom, sync, lit, fixed: fixedRange(metric), ...(marks === undefined ? {} : { marks }) }, colours);
  }, [metric, curves, axis, logX, isLogY, band, zoom, sync, lit, colours, marks]);
  const nameOf = (id: string): string => runs.find((run) => run.id === id)?.name ?? id;
  const png = (): void => {
    const canvas = plot.current?.canvas();
    if (canvas !== null && canvas !== undefined) {
      savePng(metric, canvas, curves);
    }
  };
  return (
    <figure className={`panel${props.large === true ? " large" : ""}`} aria-label={`Chart of ${metric}`}>
      <header>
        <span className="clip grow" title={metric}>
          {title}
        </span>
        <span className="tools">
          {props.tools}
          {props.onPin !== undefined && (
            <IconButton icon="pin" label={props.pinned === true ? "Unpin" : "Pin to top"} pressed={props.pinned ?? false} onClick={props.onPin} />
          )}
          <button type="button" className="btn quiet small" aria-pressed={isLogY} title="Logarithmic y axis" onClick={() => setLogY(!isLogY)}>
            log
          </button>
          <button type="button" className="btn quiet small" title="Save as PNG" onClick={png}>
            PNG
          </button>
          <button type="button" className="btn quiet small" title="Save as CSV" onClick={() => saveCsv(metric, series, nameOf)}>
            CSV
          </button>
          {props.large !== true && <IconButton icon="expand" label="Enlarge" onClick={() => setOpen(true)} />}
        </span>
      </header>
      <div ref={host} className="panel-plot" data-points={series.reduce((sum, one) => sum + one.step.length, 0)} data-last-step={lastStep(series)}>
        {curves.length === 0 && <div className="panel-word">{fault ?? (loading ? "" : "none of these runs has this metric")}</div>}
      </div>
      {open && (
        <Dialog title={metric} wide onClose={() => setOpen(false)}>
          {props.enlarged}
        </Dialog>
      )}
    </figure>
  );
}
