/** Submit a job: every field of `yard submit`, with the queue's answer before anything is queued. */
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useDeferredValue, useEffect, useMemo, useState, type FormEvent, type ReactElement } from "react";

import { clusterQuery } from "../../api/cluster";
import { answerQuery, jobQuery, queuesQuery, submitJob, type Smaller, type Wish } from "../../api/jobs";
import { experimentsQuery } from "../../api/runs";
import { jobName } from "../../lib/job-states";
import { amountOfTime } from "../../lib/amounts";
import { EMPTY, formOf, KINDS, readForm, submitLine, type Form, type Kind } from "../../lib/submit-form";
import { ErrorCard, PageHead, Skeleton, YardLine } from "../../ui/parts";
import { toast } from "../../ui/toast";
import { AnswerCard } from "./answer";
import { Fields } from "./fields";
import "./submit.css";

/** Milliseconds without a keystroke before the queue is asked. */
const PAUSE = 350;

export function SubmitPage(): ReactElement {
  const search: Record<string, string> = useSearch({ from: "/app/submit" });
  const source = useQuery({ ...jobQuery(search.from ?? ""), enabled: search.from !== undefined, staleTime: Infinity });
  if (search.from !== undefined && source.data === undefined) {
    return source.error === null ? (
      <Skeleton rows={10} />
    ) : (
      <div className="page-body">
        <ErrorCard title="The job to copy could not be read" error={source.error} retry={() => void source.refetch()} />
        <div>
          <Link className="btn" to="/app/submit" search={{}}>
            Start with an empty form
          </Link>
        </div>
      </div>
    );
  }
  const kind = KINDS.find(([one]) => one === search.kind)?.[0] ?? "command";
  return <SubmitForm key={search.from ?? kind} start={source.data === undefined ? emptyOf(kind) : formOf(source.data)} from={source.data === undefined ? null : jobName(source.data.job)} />;
}

/** An empty form; a notebook asks for no GPU unless told to. */
const emptyOf = (kind: Kind): Form => (kind === "command" ? EMPTY : { ...EMPTY, kind, gpus: "0" });

const TITLES: Record<Kind, string> = { command: "Submit a job", notebook: "Start a notebook", app: "Start a web app" };

/** What the job will find in its folder. */
function hintOf(form: Form): string {
  if (form.kind === "notebook") {
    return "JupyterLab works in a folder of yours that lasts. The job's page has a button to open it once it runs.";
  }
  if (form.git.trim() !== "") {
    return "The node fetches the repository before the command runs in it; it needs git and access to the address.";
  }
  return form.package === ""
    ? "A terminal packages the folder you stand in (leave --no-working-dir out). Without code the command runs in an empty folder, with what is installed on the node."
    : "It runs in the packaged folder. A terminal packages the folder you stand in.";
}

/** The same value once it has rested for a while. */
function useRested<T>(value: T, wait: number): T {
  const [held, setHeld] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setHeld(value), wait);
    return () => clearTimeout(timer);
  }, [value, wait]);
  return held;
}

function SubmitForm({ start, from }: { start: Form; from: string | null }): ReactElement {
  const [form, setForm] = useState(start);
  const [fault, setFault] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const navigate = useNavigate();
  const queues = useQuery(queuesQuery());
  const experiments = useQuery(experimentsQuery());
  const cluster = useQuery(clusterQuery());
  const change = (part: Partial<Form>): void => {
    setFault(null);
    setForm((before) => ({ ...before, ...part }));
  };
  const read = useMemo(() => readForm(form), [form]);
  const text = read.fields === null ? "" : JSON.stringify(read.fields);
  const asked = useRested(useDeferredValue(text), PAUSE);
  const wish = useMemo(() => (asked === "" ? null : (JSON.parse(asked) as Wish)), [asked]);
  const answer = useQuery({ ...answerQuery(wish), placeholderData: (before) => (asked === "" ? undefined : before), refetchInterval: 15_000 });
  const submit = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    if (read.fields === null || busy) {
      return;
    }
    setBusy(true);
    try {
      const reply = await submitJob({ ...(read.fields as Wish), key: crypto.randomUUID?.() ?? String(Math.random()).slice(2) });
      const first = reply.jobs[0];
      toast(reply.jobs.length > 1 ? `Queued ${reply.jobs.length} jobs` : `Queued ${first?.name ?? "the job"}`);
      void navigate(
        reply.jobs.length > 1 || first === undefined
          ? { to: "/app/queue", search: first === undefined ? {} : { job: first.job_id } }
          : { to: "/app/jobs/$jobId", params: { jobId: first.job_id }, search: {} },
      );
    } catch (cause) {
      setFault(cause);
      setBusy(false);
    }
  };
  const take = (smaller: Smaller): void =>
    change({
      gpus: String(smaller.gpus),
      nodes: String(smaller.nodes),
      ...(smaller.time_limit_seconds === null ? {} : { time: amountOfTime(smaller.time_limit_seconds) }),
    });
  return (
    <form onSubmit={(event) => void submit(event)}>
      <PageHead title={from === null ? TITLES[form.kind] : `Submit a copy of ${from}`} facts={<span>the queue answers before anything is queued</span>}>
        <button type="submit" className="btn primary" disabled={read.fields === null || busy}>
          {form.hold ? "Submit on hold" : "Submit"}
        </button>
      </PageHead>
      <div className="page-body submit-columns">
        <Fields
          form={form}
          faults={read.faults}
          onChange={change}
          queues={(queues.data ?? []).map((one) => one.name)}
          experiments={(experiments.data ?? []).map((one) => one.name)}
          gpuTypes={[...new Set((cluster.data?.nodes ?? []).flatMap((node) => node.gpus.map((gpu) => gpu.type)))]}
        />
        <aside className="stack submit-side">
          {fault !== null && <ErrorCard title="The job was not queued" error={fault} />}
          <AnswerCard empty={form.kind !== "notebook" && form.command.trim() === ""} faults={Object.keys(read.faults).length} answer={asked === "" ? undefined : answer.data} error={asked === "" ? null : answer.error} onTake={take} />
          <section className="stack" style={{ gap: 6 }}>
            <h3>The same from a terminal</h3>
            {read.fields === null ? <YardLine line="yard submit --gpus 1 -- python train.py" /> : <YardLine line={submitLine(read.fields)} />}
            <p className="faint" style={{ fontSize: 12 }}>
              {hintOf(form)}
            </p>
          </section>
        </aside>
      </div>
    </form>
  );
}
