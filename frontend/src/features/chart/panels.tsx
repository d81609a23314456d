/** All panels: pinned ones, folders by name, the machine. Panels are mounted as they come into sight. */
import { memo, useEffect, useMemo, useRef, useState, type ReactElement, type ReactNode } from "react";

import { folders, inOrder, isSystem, leafOf, machineLabel, machinePart, machineRank } from "../../lib/metric-names";
import { matcher } from "../../lib/search";
import { Icon } from "../../ui/icon";
import "./chart.css";
import { Panel, type ChartRun, type ChartSettings } from "./panel";

/** Above this many panels folders start folded: no one looks at hundreds at once. */
const MANY = 60;
export const MACHINE = "System metrics";

interface Section {
  name: string;
  metrics: string[];
  open: boolean;
  label: (metric: string) => string;
  machine: boolean;
}

/** Which sections there are, in order, and which of them are open. */
export function sectionsOf(
  metrics: readonly string[],
  options: { search: string; pinned: readonly string[]; folded: readonly string[]; machineOpen: boolean },
): Section[] {
  const wanted = matcher(options.search);
  const shown = metrics.filter(wanted);
  const searching = options.search.trim() !== "";
  const pins = options.pinned.filter((name) => shown.includes(name));
  const plain = shown.filter((name) => !isSystem(name) && !pins.includes(name));
  const machine = inOrder(shown.filter(isSystem));
  const isOpen = (name: string, start: boolean): boolean => start !== options.folded.includes(name);
  const found: Section[] = [];
  if (pins.length > 0) {
    found.push({ name: "Pinned", metrics: pins, open: isOpen("Pinned", true), label: (name) => name, machine: false });
  }
  for (const [at, folder] of folders(plain).entries()) {
    const name = folder.name === "" ? "Metrics" : folder.name;
    const start = searching || plain.length <= MANY || at === 0;
    found.push({ name, metrics: folder.metrics, open: isOpen(name, start), label: leafOf, machine: false });
  }
  const parts = new Map<string, string[]>();
  for (const name of machine) {
    const part = machinePart(name);
    parts.set(part, [...(parts.get(part) ?? []), name]);
  }
  const single = !options.machineOpen && !searching;
  if (single && machine.length > 0) {
    found.push({ name: MACHINE, metrics: machine, open: isOpen(MACHINE, false), label: (name) => `${machinePart(name)} ${machineLabel(name)}`, machine: true });
  } else {
    const order = [...parts].sort(([a], [b]) => machineRank(a) - machineRank(b));
    for (const [part, names] of order) {
      found.push({ name: part, metrics: names, open: isOpen(part, true), label: machineLabel, machine: true });
    }
  }
  return found;
}

interface Props {
  metrics: readonly string[];
  runs: readonly ChartRun[];
  settings: ChartSettings;
  search: string;
  pinned: readonly string[];
  folded: readonly string[];
  machineOpen?: boolean;
  /** the metric that is drawn wide, before all others */
  lead?: string | undefined;
  onPin?: (metric: string) => void;
  onFold: (section: string) => void;
}

function PanelsPlain(props: Props): ReactElement {
  const { metrics, runs, settings, search, pinned, folded } = props;
  const machineOpen = props.machineOpen ?? false;
  const lead = props.lead !== undefined && search.trim() === "" && metrics.includes(props.lead) ? props.lead : undefined;
  const sections = useMemo(
    () => sectionsOf(lead === undefined ? metrics : metrics.filter((name) => name !== lead), { search, pinned, folded, machineOpen }),
    [metrics, lead, search, pinned, folded, machineOpen],
  );
  // Steps of the machine's samples are its own count, so they hang on time.
  const machineSettings = useMemo<ChartSettings>(
    () => (settings.axis === "step" ? { ...settings, axis: "relative", logX: false, zoom: null, onZoom: () => undefined } : settings),
    [settings],
  );
  if (sections.length === 0 && lead === undefined) {
    return <p className="faint" style={{ padding: 16 }}>{metrics.length === 0 ? "No metrics were logged to these runs yet." : "No metric has that name."}</p>;
  }
  return (
    <>
      {lead !== undefined && (
        <div className="lead-panel">
          <Panel metric={lead} title={lead} runs={runs} settings={settings} sync="metrics" />
        </div>
      )}
      {sections.map((section) => (
        <section key={section.name} className="chart-section">
          <header>
            <button type="button" aria-expanded={section.open} onClick={() => props.onFold(section.name)}>
              <Icon name={section.open ? "down" : "right"} />
              {section.name}
            </button>
            <span className="faint">{section.metrics.length}</span>
          </header>
          {section.open && (
            <div className="panels">
              {section.metrics.map((metric) => (
                <InSight key={metric}>
                  <Panel
                    metric={metric}
                    title={section.label(metric)}
                    runs={runs}
                    settings={section.machine ? machineSettings : settings}
                    sync={section.machine ? "machine" : "metrics"}
                    pinned={pinned.includes(metric)}
                    {...(props.onPin === undefined ? {} : { onPin: () => props.onPin?.(metric) })}
                  />
                </InSight>
              ))}
            </div>
          )}
        </section>
      ))}
    </>
  );
}

export const Panels = memo(PanelsPlain);

/** Mounts what it holds while it is on, or near, the screen. */
export function InSight({ children, height = 192 }: { children: ReactNode; height?: number }): ReactElement {
  const box = useRef<HTMLDivElement>(null);
  const [near, setNear] = useState(false);
  useEffect(() => {
    const watcher = new IntersectionObserver((entries) => setNear(entries[entries.length - 1]?.isIntersecting ?? false), { rootMargin: "300px" });
    if (box.current !== null) {
      watcher.observe(box.current);
    }
    return () => watcher.disconnect();
  }, []);
  return (
    <div ref={box} style={{ minHeight: height, minWidth: 0 }}>
      {near ? children : height === 192 ? <div className="panel" /> : null}
    </div>
  );
}
