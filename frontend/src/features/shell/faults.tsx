/** Pages that stand in for a page: not found, failed. Never blank. */
import { Link, type ErrorComponentProps } from "@tanstack/react-router";
import type { ReactElement } from "react";

import { ErrorCard } from "../../ui/parts";

/** Page not found. */
export function NotFound(): ReactElement {
  return (
    <div className="empty">
      <h1>Page not found</h1>
      <p className="muted">The address may be mistyped, or what it showed was renamed or deleted.</p>
      <div className="row">
        <Link className="btn" to="/app/home">
          Home
        </Link>
        <Link className="btn" to="/app/experiments">
          Experiments
        </Link>
      </div>
    </div>
  );
}

/** A page failed while it was drawn. */
export function PageFault({ error, reset }: ErrorComponentProps): ReactElement {
  return (
    <div className="empty">
      <ErrorCard title="This page failed" error={error} retry={reset} />
      <p className="muted">
        Reloading usually helps. If it does not, the server and the page may be of different versions: `yard doctor`
        tells.
      </p>
    </div>
  );
}
