/** A report as it is read: Markdown with its charts and run sets drawn live. */
import { useCallback, useDeferredValue, useMemo, type ReactElement } from "react";

import { isLiveBlock, readBlock, setsOf, type RunSet } from "../../lib/report";
import { ErrorCard } from "../../ui/parts";
import { Markdown } from "../markdown/markdown";
import { ChartBlock } from "./chart-block";
import { RunsBlock } from "./runs-block";
import "./report.css";

export function ReportView({ text }: { text: string }): ReactElement {
  const shown = useDeferredValue(text);
  const sets = useMemo(() => setsOf(shown), [shown]);
  const draw = useCallback(
    (language: string, block: string) => (isLiveBlock(language) ? <LiveBlock key={block} language={language} text={block} sets={sets} /> : null),
    [sets],
  );
  return <Markdown text={shown} code={draw} />;
}

function LiveBlock({ language, text, sets }: { language: string; text: string; sets: ReadonlyMap<string, RunSet> }): ReactElement {
  const live = useMemo(() => readBlock(language, text), [language, text]);
  switch (live.kind) {
    case "runs":
      return <RunsBlock set={live.set} />;
    case "chart":
      return <ChartBlock chart={live.chart} sets={sets} id={`report ${text}`} />;
    default:
      return <ErrorCard title={`This ${language} block cannot be drawn`} error={live.fault} />;
  }
}
