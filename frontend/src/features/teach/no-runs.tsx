/** An empty page that teaches: two lines and a short script, ready to copy. */
import type { ReactElement } from "react";

import { Copy, YardLine } from "../../ui/parts";

/** The lines that point a training at this server. */
export function exportLines(origin: string): string {
  return `export MLFLOW_TRACKING_URI=${origin}\nexport MLFLOW_TRACKING_TOKEN=…   # yard token create`;
}

const SCRIPT = `import mlflow

mlflow.set_experiment("first")
with mlflow.start_run():
    for step in range(100):
        mlflow.log_metric("loss", 1 / (step + 1), step=step)`;

export function NoRuns(): ReactElement {
  const lines = exportLines(window.location.origin);
  return (
    <div className="empty">
      <h2>No runs here yet</h2>
      <p className="muted">Any MLflow client logs to this server. Point it here:</p>
      <pre>
        {lines}
        <span style={{ position: "absolute", right: 6, top: 6 }}>
          <Copy text={lines} />
        </span>
      </pre>
      <p className="muted">and run a script:</p>
      <pre>
        {SCRIPT}
        <span style={{ position: "absolute", right: 6, top: 6 }}>
          <Copy text={SCRIPT} />
        </span>
      </pre>
      <p className="muted">Or look at a demo project:</p>
      <YardLine line="yard demo" />
    </div>
  );
}
