/** Charts of one's own: expressions over metrics, kept with the experiment for the whole team. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useId, useMemo, useRef, useState, useSyncExternalStore, type FormEvent, type ReactElement } from "react";

import { deleteExperimentTag, experimentQuery, keys, setExperimentTag } from "../../api/runs";
import { seriesStore, type Series, type Want } from "../../api/series";
import { coloursOf } from "../../lib/colour";
import { CHART_TAG, customCurve, metricsOf, readChart, writeChart, type CustomChart } from "../../lib/custom-chart";
import { expressionFault } from "../../lib/expression";
import { matcher } from "../../lib/search";
import { yard } from "../../lib/yard-line";
import { Icon } from "../../ui/icon";
import { Dialog } from "../../ui/menu";
import { ErrorCard, IconButton, YardLine } from "../../ui/parts";
import { complain, toast } from "../../ui/toast";
import { InSight } from "./panels";
import { PanelFrame, pointsFor, type ChartRun, type ChartSettings, type Drawn } from "./panel";

export interface Charts {
  /** the experiment they are kept with; none where several are shown */
  experiment: string | undefined;
  name: string;
  all: CustomChart[];
  save: (chart: CustomChart, before: CustomChart | null) => Promise<void>;
  remove: (chart: CustomChart) => void;
}

/** The charts that the team keeps with an experiment. */
export function useCustomCharts(experiment: string | undefined): Charts {
  const client = useQueryClient();
  const { data } = useQuery({ ...experimentQuery(experiment ?? ""), enabled: experiment !== undefined });
  const all = useMemo(() => (data?.tags ?? []).flatMap(({ key, value }) => readChart(key, value) ?? []), [data]);
  const refresh = (): Promise<void> => client.invalidateQueries({ queryKey: keys.experiment(experiment ?? "") });
  const id = experiment ?? "";
  return {
    experiment,
    name: data?.name ?? id,
    all,
    save: async (chart, before) => {
      await setExperimentTag(id, CHART_TAG + chart.title, writeChart(chart));
      if (before !== null && before.title !== chart.title) {
        await deleteExperimentTag(id, CHART_TAG + before.title);
      }
      toast(`Saved “${chart.title}” for the team`);
      await refresh();
    },
    remove: (chart) =>
      void deleteExperimentTag(id, CHART_TAG + chart.title).then(
        () => {
          const undo = (): void => void setExperimentTag(id, CHART_TAG + chart.title, writeChart(chart)).then(refresh);
          toast(`Removed “${chart.title}”`, { word: "Undo", run: undo });
          void refresh();
        },
        (cause: unknown) => complain("The chart was not removed", cause),
      ),
  };
}

/** The button that makes a chart. */
export function AddChart({ charts, metrics }: { charts: Charts; metrics: readonly string[] }): ReactElement | null {
  const [open, setOpen] = useState(false);
  return (
    <>
      <button
        type="button"
        className="btn small"
        disabled={charts.experiment === undefined}
        title={charts.experiment === undefined ? "Custom charts are kept with an experiment: choose one" : "A chart of an expression over metrics"}
        onClick={() => setOpen(true)}
      >
        <Icon name="plus" />
        Custom chart
      </button>
      {open && <EditChart charts={charts} metrics={metrics} chart={null} onClose={() => setOpen(false)} />}
    </>
  );
}

function EditChart({ charts, metrics, chart, onClose }: { charts: Charts; metrics: readonly string[]; chart: CustomChart | null; onClose: () => void }): ReactElement {
  const id = useId();
  const [title, setTitle] = useState(chart?.title ?? "");
  const [y, setY] = useState(chart?.y ?? "");
  const [x, setX] = useState(chart?.x ?? "");
  const [fault, setFault] = useState<unknown>(null);
  const wrongY = y.trim() === "" ? null : expressionFault(y, metrics);
  const wrongX = x.trim() === "" ? null : expressionFault(x, metrics);
  const wanted: CustomChart = { title: (title.trim() === "" ? y.trim() : title.trim()).slice(0, 100), y: y.trim(), x: x.trim() };
  const isGood = wanted.y !== "" && wrongY === null && wrongX === null;
  const save = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    try {
      await charts.save(wanted, chart);
      onClose();
    } catch (cause) {
      setFault(cause);
    }
  };
  const field = (label: string, value: string, set: (text: string) => void, hint: string, wrong: string | null): ReactElement => (
    <div className="label">
      <label htmlFor={`${id}-${label}`}>{label}</label>
      <input
        id={`${id}-${label}`}
        className="field"
        value={value}
        placeholder={hint}
        spellCheck={false}
        autoComplete="off"
        aria-invalid={wrong !== null}
        aria-describedby={wrong === null ? undefined : `${id}-${label}-wrong`}
        onChange={(event) => set(event.target.value)}
      />
      {wrong !== null && (
        <span id={`${id}-${label}-wrong`} className="tone-red">
          {wrong}
        </span>
      )}
    </div>
  );
  return (
    <Dialog title={chart === null ? "New custom chart" : `Edit ${chart.title}`} onClose={onClose}>
      <form className="stack" onSubmit={(event) => void save(event)}>
        {field("Vertical axis", y, setY, "train/loss - val/loss", wrongY)}
        {field("Horizontal axis", x, setX, "as chosen above the charts, or tokens / 1e6", wrongX)}
        {field("Title", title, setTitle, y.trim() === "" ? "Auto-generated" : y.trim(), null)}
        <p className="faint">
          Metrics by their names (in backquotes where they hold spaces), <code>step</code>, <code>time</code> in seconds, + - * / ^, abs, exp, log, log2, log10, sqrt, min, max.
        </p>
        {fault !== null && <ErrorCard title="The chart was not saved" error={fault} />}
        {isGood && <YardLine line={yard.editExperiment(charts.name, "--tag", `${CHART_TAG}${wanted.title}=${writeChart(wanted)}`)} />}
        <div className="row" style={{ justifyContent: "flex-end" }}>
          <button type="button" className="btn" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" className="btn primary" disabled={!isGood}>
            Save for the team
          </button>
        </div>
      </form>
    </Dialog>
  );
}

interface Props {
  charts: Charts;
  metrics: readonly string[];
  runs: readonly ChartRun[];
  settings: ChartSettings;
  search: string;
}

/** The section of the team's own charts, before all others. */
export function CustomCharts(props: Props): ReactElement | null {
  const [editing, setEditing] = useState<CustomChart | null>(null);
  const wanted = matcher(props.search);
  const shown = props.charts.all.filter((chart) => wanted(`${chart.title} ${chart.y}`));
  if (shown.length === 0) {
    return null;
  }
  return (
    <section className="chart-section" aria-label="Custom charts">
      <header>
        <b>Custom</b>
        <span className="faint">{shown.length}</span>
      </header>
      <div className="panels">
        {shown.map((chart) => (
          <InSight key={chart.title}>
            <CustomPanel chart={chart} runs={props.runs} settings={props.settings} onEdit={() => setEditing(chart)} onRemove={() => props.charts.remove(chart)} />
          </InSight>
        ))}
      </div>
      {editing !== null && <EditChart charts={props.charts} metrics={props.metrics} chart={editing} onClose={() => setEditing(null)} />}
    </section>
  );
}

interface PanelProps {
  chart: CustomChart;
  runs: readonly ChartRun[];
  settings: ChartSettings;
  large?: boolean;
  /** where it can be changed */
  onEdit?: () => void;
  onRemove?: () => void;
}

/** The curves of an expression over the metrics of some runs. */
export function CustomPanel(props: PanelProps): ReactElement {
  const { chart, runs, settings } = props;
  const drawn = useCustomCurves(chart, runs, settings, props.large === true);
  // An axis of its own has nothing in common with the other charts' zoom and marks.
  const own = useMemo<ChartSettings>(() => (chart.x === "" ? settings : { ...settings, axis: "step", zoom: null, onZoom: () => undefined, marks: [] }), [chart.x, settings]);
  return (
    <PanelFrame
      metric={chart.title}
      title={chart.x === "" ? chart.title : `${chart.title} against ${chart.x}`}
      runs={runs}
      settings={own}
      sync={chart.x === "" ? "metrics" : `custom-${chart.title}`}
      drawn={drawn}
      large={props.large ?? false}
      tools={
        <>
          {props.onEdit !== undefined && <IconButton icon="edit" label={`Edit ${chart.title}`} onClick={props.onEdit} />}
          {props.onRemove !== undefined && <IconButton icon="trash" label={`Remove ${chart.title}`} onClick={props.onRemove} />}
        </>
      }
      enlarged={<CustomPanel {...props} large />}
    />
  );
}

function useCustomCurves(chart: CustomChart, runs: readonly ChartRun[], settings: ChartSettings, large: boolean): Drawn {
  const ids = useMemo(() => runs.map((run) => run.id), [runs]);
  const points = pointsFor(ids.length, large);
  const wants = useMemo<Want[]>(() => metricsOf(chart).map((key) => ({ runs: ids, key, points, span: null, orphans: false })), [chart, ids, points]);
  const { series, loading, fault } = useManySeries(wants);
  const { axis, smoothing } = settings;
  const curves = useMemo(() => {
    const paint = coloursOf(ids);
    const needed = wants.length;
    return runs.flatMap((run) => {
      const own = series.filter((one) => one.run_id === run.id);
      const curve = own.length < needed ? null : customCurve(chart, own, { name: run.name, colour: paint.get(run.id) ?? "#888888", start: run.start }, axis, smoothing);
      return curve ?? [];
    });
  }, [chart, runs, ids, series, wants.length, axis, smoothing]);
  return { curves, series, loading, fault };
}

interface Held {
  series: Series[];
  loading: boolean;
  fault: string | null;
}

/** Watch the series of several metrics at once; the same answer comes back until something changed. */
function useManySeries(wants: readonly Want[]): Held {
  const held = useRef<{ wants: readonly Want[]; found: Held } | null>(null);
  const read = useCallback((): Held => {
    const states = wants.map((want) => seriesStore.stateOf(want));
    return {
      series: wants.flatMap((want) => seriesStore.get(want)),
      loading: states.some((state) => state.loading),
      fault: states.find((state) => state.fault !== null)?.fault ?? null,
    };
  }, [wants]);
  const subscribe = useCallback(
    (changed: () => void) => {
      const ends = wants.map((want) =>
        seriesStore.watch(want, () => {
          held.current = { wants, found: read() };
          changed();
        }),
      );
      return () => ends.forEach((end) => end());
    },
    [wants, read],
  );
  const get = useCallback(() => {
    if (held.current?.wants !== wants) {
      held.current = { wants, found: read() };
    }
    return held.current.found;
  }, [wants, read]);
  return useSyncExternalStore(subscribe, get);
}
