/** An empty queue teaches how to submit. */
import { Link } from "@tanstack/react-router";
import type { ReactElement } from "react";

import { Copy, YardLine } from "../../ui/parts";

const FILE = `# job.yaml
name: first
gpus: 1
time: 2h
retries: 2
command: python train.py --lr 3e-4`;

export function NoJobs(): ReactElement {
  return (
    <div className="empty">
      <h2>Nothing is queued, nothing runs</h2>
      <p className="muted">A job is a command with the folder it stands in. Queue one from a terminal:</p>
      <YardLine line="yard submit --gpus 1 -- python train.py" />
      <p className="muted">or from a file with the same words as keys, with `yard submit -f job.yaml`:</p>
      <pre>
        {FILE}
        <span style={{ position: "absolute", right: 6, top: 6 }}>
          <Copy text={FILE} />
        </span>
      </pre>
      <p className="muted">MLflow calls inside the job land in its run without a changed line. Here you then see when it starts, why it waits, and how it goes.</p>
      <div>
        <Link className="btn primary" to="/app/submit" search={{}}>
          Submit a job here
        </Link>
      </div>
    </div>
  );
}
