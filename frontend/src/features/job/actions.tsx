/** What can be done to a job: stop, requeue, hold, release. Each shows its `yard` line; what cannot be undone asks once. */
import { useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState, type FormEvent, type ReactElement } from "react";

import { holdJob, releaseJob, requeueJob, stopJob, type Change, type Job } from "../../api/jobs";
import { amountOfTime, readTime } from "../../lib/amounts";
import { isGoing, isOver, jobName } from "../../lib/job-states";
import { jobLine } from "../../lib/job-lines";
import { PRIORITIES } from "../../lib/submit-form";
import { Icon } from "../../ui/icon";
import { Dialog, MenuButton, MenuItem } from "../../ui/menu";
import { YardLine } from "../../ui/parts";
import { complain, toast } from "../../ui/toast";

/** Do something to a job and read what changed. */
export function useAct(): (what: string, doing: Promise<unknown>, undo?: () => void) => Promise<boolean> {
  const client = useQueryClient();
  return async (what, doing, undo) => {
    try {
      await doing;
      toast(what, undo === undefined ? undefined : { word: "Undo", run: undo });
      for (const head of ["jobs", "line", "job", "forecast", "cluster"]) {
        void client.invalidateQueries({ queryKey: [head] });
      }
      return true;
    } catch (cause) {
      complain(`${what}: that failed`, cause);
      return false;
    }
  };
}

type Open = "stop" | "requeue" | "change" | null;

export function JobActions({ job, compact = false }: { job: Job; compact?: boolean }): ReactElement {
  const [open, setOpen] = useState<Open>(null);
  const act = useAct();
  const name = jobName(job);
  const id = job.job_id;
  const hold = (): void => void act(`Held ${name}`, holdJob(id), () => void act(`Released ${name}`, releaseJob(id)));
  const release = (): void => void act(`Released ${name}`, releaseJob(id), () => void act(`Held ${name}`, holdJob(id)));
  return (
    <>
      {!compact && !isOver(job) && (
        <button type="button" className="btn" disabled={job.stopping} title={jobLine.stop(id)} onClick={() => setOpen("stop")}>
          <Icon name="square" />
          Stop
        </button>
      )}
      {!compact && isOver(job) && (
        <button type="button" className="btn" title={jobLine.requeue(id)} onClick={() => setOpen("requeue")}>
          <Icon name="refresh" />
          Requeue
        </button>
      )}
      <MenuButton name={`Actions for ${name}`} label={compact ? "" : "Actions"} quiet={compact} caret={!compact} width={300} {...(compact ? { icon: "more" as const } : {})}>
        {(close) => {
          const item = (then: () => void) => (): void => {
            close();
            then();
          };
          return (
            <>
              {job.state === "queued" &&
                (job.held ? (
                  <Action icon="play" word="Release" line={jobLine.release(id)} onClick={item(release)} />
                ) : (
                  <Action icon="pause" word="Hold" line={jobLine.hold(id)} onClick={item(hold)} />
                ))}
              {!isOver(job) && job.state === "queued" && <Action icon="edit" word="Change the request…" line={jobLine.requeue(id, { gpus: 1 })} onClick={item(() => setOpen("change"))} />}
              {!isOver(job) && !job.stopping && <Action icon="square" word="Stop…" line={jobLine.stop(id)} onClick={item(() => setOpen("stop"))} danger />}
              {(isOver(job) || isGoing(job)) && <Action icon="refresh" word={isGoing(job) ? "Save and requeue…" : "Requeue…"} line={jobLine.requeue(id)} onClick={item(() => setOpen("requeue"))} />}
              <Link className="menu-item" role="menuitem" to="/app/submit" search={{ from: id }} onClick={close}>
                <Icon name="copy" />
                Submit a copy
              </Link>
              <hr />
              <div className="menu-head">In a terminal</div>
              <YardLine line={job.state === "queued" ? jobLine.why(id) : jobLine.show(id)} />
            </>
          );
        }}
      </MenuButton>
      {open === "stop" && <StopDialog job={job} onClose={() => setOpen(null)} />}
      {(open === "requeue" || open === "change") && <RequeueDialog job={job} onClose={() => setOpen(null)} />}
    </>
  );
}

function Action(props: { icon: "play" | "pause" | "square" | "refresh" | "edit"; word: string; line: string; danger?: boolean; onClick: () => void }): ReactElement {
  return (
    <MenuItem icon={props.icon} danger={props.danger ?? false} onClick={props.onClick}>
      <span className="grow">{props.word}</span>
      <code className="faint clip" style={{ maxWidth: 150 }}>
        {props.line}
      </code>
    </MenuItem>
  );
}

export function StopDialog({ job, onClose }: { job: Job; onClose: () => void }): ReactElement {
  const act = useAct();
  const name = jobName(job);
  const array = job.array_id;
  const stop = (id: string, what: string): void => {
    onClose();
    void act(`Stopping ${what}`, stopJob(id));
  };
  return (
    <Dialog title={`Stop ${name}?`} onClose={onClose}>
      <p className="muted">
        {isGoing(job)
          ? "It is asked to save and end, and is ended when its grace is over. What it logged stays; it can be queued again."
          : "It leaves the line. It can be queued again."}
      </p>
      <YardLine line={jobLine.stop(job.job_id)} />
      <div className="dialog-foot">
        <button type="button" className="btn" onClick={onClose}>
          Keep it
        </button>
        {array !== "" && (
          <button type="button" className="btn danger" onClick={() => stop(array, `all of ${job.name}`)}>
            Stop the whole array
          </button>
        )}
        <button type="button" className="btn danger" onClick={() => stop(job.job_id, name)}>
          Stop
        </button>
      </div>
    </Dialog>
  );
}

/** Queue a job again, with another request where wished. */
export function RequeueDialog({ job, onClose }: { job: Job; onClose: () => void }): ReactElement {
  const each = job.gpus / Math.max(1, job.nodes);
  const [gpus, setGpus] = useState(String(each));
  const [nodes, setNodes] = useState(String(job.nodes));
  const [time, setTime] = useState(job.time_limit_seconds === null ? "" : amountOfTime(job.time_limit_seconds));
  const [priority, setPriority] = useState(job.priority);
  const [queue, setQueue] = useState(job.queue);
  const [anywhere, setAnywhere] = useState(false);
  const act = useAct();
  const seconds = time.trim() === "" ? null : readTime(time);
  const change: Change = {
    ...(Number(gpus) === each ? {} : { gpus: Number(gpus) }),
    ...(Number(nodes) === job.nodes ? {} : { nodes: Number(nodes) }),
    ...(seconds === null || seconds === job.time_limit_seconds ? {} : { time_limit_seconds: seconds }),
    ...(priority === job.priority ? {} : { priority }),
    ...(queue.trim() === job.queue ? {} : { queue: queue.trim() }),
    ...(anywhere ? { anywhere } : {}),
  };
  const waits = job.state === "queued";
  const bad = !Number.isFinite(Number(gpus)) || !Number.isInteger(Number(nodes)) || (time.trim() !== "" && seconds === null);
  const send = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    if (await act(waits ? `Changed ${jobName(job)}` : `Queued ${jobName(job)} again`, requeueJob(job.job_id, change))) {
      onClose();
    }
  };
  return (
    <Dialog title={waits ? `Change ${jobName(job)}` : `Queue ${jobName(job)} again`} onClose={onClose}>
      {isGoing(job) && <p className="muted">It saves a checkpoint, stops, and resumes from it later.</p>}
      <form className="form-grid" onSubmit={(event) => void send(event)}>
        <label className="label">
          GPUs on each node
          <input className="field" inputMode="decimal" value={gpus} onChange={(event) => setGpus(event.target.value)} />
        </label>
        <label className="label">
          Nodes
          <input className="field" inputMode="numeric" value={nodes} onChange={(event) => setNodes(event.target.value)} />
        </label>
        <label className="label">
          Time limit
          <input className="field" placeholder="none, or 2h30m" value={time} onChange={(event) => setTime(event.target.value)} />
        </label>
        <label className="label">
          Priority
          <select className="field" value={priority} onChange={(event) => setPriority(event.target.value)}>
            {PRIORITIES.map((word) => (
              <option key={word}>{word}</option>
            ))}
          </select>
        </label>
        <label className="label">
          Queue
          <input className="field" value={queue} onChange={(event) => setQueue(event.target.value)} />
        </label>
        <label className="row" style={{ alignSelf: "end", height: 28, fontSize: 13 }}>
          <input type="checkbox" checked={anywhere} onChange={(event) => setAnywhere(event.target.checked)} />
          also on nodes where it failed
        </label>
        <div className="form-whole">
          <YardLine line={jobLine.requeue(job.job_id, change)} />
        </div>
        <div className="dialog-foot form-whole">
          <button type="button" className="btn" onClick={onClose}>
            Leave it
          </button>
          <button type="submit" className="btn primary" disabled={bad}>
            {waits ? "Change" : "Queue again"}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
