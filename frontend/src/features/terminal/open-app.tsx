/** Opens the app of a job on a host of its own; warns before an idle one is stopped. */
import { useQuery } from "@tanstack/react-query";
import { useState, type ReactElement } from "react";

import { appQuery, openApp, type Job } from "../../api/jobs";
import { duration } from "../../lib/format";
import { Icon } from "../../ui/icon";
import { useNow } from "../../ui/parts";
import { complain } from "../../ui/toast";

export function OpenApp({ job }: { job: Job }): ReactElement | null {
  const [isBusy, setBusy] = useState(false);
  if (job.state !== "running" || (job.interactive !== "notebook" && job.interactive !== "app")) {
    return null;
  }
  const open = async (): Promise<void> => {
    // Opened by the click itself: a page that opens one later is taken for a nuisance.
    const page = window.open("about:blank", "_blank");
    setBusy(true);
    try {
      const { url } = await openApp(job.job_id);
      if (page === null) {
        window.location.assign(url);
      } else {
        page.opener = null;
        page.location.replace(url);
      }
    } catch (cause) {
      page?.close();
      complain("The app could not be opened", cause);
    } finally {
      setBusy(false);
    }
  };
  return (
    <button type="button" className="btn" disabled={isBusy} onClick={() => void open()}>
      <Icon name="out" />
      {job.interactive === "notebook" ? "Open JupyterLab" : "Open the app"}
    </button>
  );
}

/** Says that a session is idle, and when it will be stopped. */
export function IdleNote({ job }: { job: Job }): ReactElement | null {
  const now = useNow(10_000);
  const state = useQuery(appQuery(job));
  const at = state.data?.idle_stop_ms;
  if (typeof at !== "number" || at < now) {
    return null;
  }
  return (
    <div className="note-box" role="status">
      Idle: it will be stopped in {duration(at - now)}. Its folder is kept; run something in it to keep it running.
    </div>
  );
}
