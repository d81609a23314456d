/** An empty page that teaches: two lines and a short script, ready to copy. */
import { useState, type ReactElement } from "react";

import { json } from "../../api/client";
import { Icon } from "../../ui/icon";
import { Copy, YardLine } from "../../ui/parts";
import { complain } from "../../ui/toast";

/** The lines that point a training at this server; without a token they say how to get one. */
export function exportLines(origin: string, token: string | null = null): string {
  return `export MLFLOW_TRACKING_URI=${origin}\nexport MLFLOW_TRACKING_TOKEN=${token ?? "…   # yard token create"}`;
}

const SCRIPT = `import mlflow

mlflow.set_experiment("first")
with mlflow.start_run():
    for step in range(100):
        mlflow.log_metric("loss", 1 / (step + 1), step=step)`;

export function NoRuns(): ReactElement {
  const [token, setToken] = useState<string | null>(null);
  const lines = exportLines(window.location.origin, token);
  const make = (): void =>
    void json<{ token: string }>("/api/v1/tokens", { method: "POST", body: { label: "first steps" } }).then(
      (made) => setToken(made.token),
      (cause: unknown) => complain("The token was not created", cause),
    );
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
      {token === null ? (
        <button type="button" className="btn primary" title="yard token create" onClick={make}>
          <Icon name="plus" />
          Create a token and fill it in
        </button>
      ) : (
        <p className="muted" role="status">
          The token is valid for 90 days and is shown only once. You can revoke it in Settings.
        </p>
      )}
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
