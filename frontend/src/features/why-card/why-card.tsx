/** Why a job waits: the dominant reason with its numbers, when it may start, and what would help now. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo, useState, type ReactElement } from "react";

import { answerQuery, jobQuery, releaseJob, requeueJob, type Eta, type Job, type Reason, type Wish } from "../../api/jobs";
import { count, duration } from "../../lib/format";
import { jobName } from "../../lib/job-states";
import { jobLine } from "../../lib/job-lines";
import { amountOf, lookOf, remediesFor, type Lesser, type Remedy } from "../../lib/reasons";
import { formOf, readForm } from "../../lib/submit-form";
import { Icon } from "../../ui/icon";
import { useNow, YardLine } from "../../ui/parts";
import { RequeueDialog, StopDialog, useAct } from "../job/actions";
import { etaWords } from "../job/eta";
import { Sentence } from "../job/parts";
import "./why-card.css";

interface Props {
  job: Job;
  reasons: readonly Reason[];
  eta: Eta | null;
  position: number | null;
  waiting: number;
  nameOf: (id: string) => string;
}

export function WhyCard({ job, reasons, eta, position, waiting, nameOf }: Props): ReactElement {
  const now = useNow(5000);
  const reason = reasons[0];
  if (reason === undefined) {
    return (
      <div className="why-card">
        <p className="muted">It was queued just now; the scheduler looks at it in a moment.</p>
      </div>
    );
  }
  const tier = lookOf(reason);
  const words = etaWords(eta, now);
  return (
    <section className={`why-card tone-edge-${tier.tone}`} aria-label={`Why ${jobName(job)} waits`}>
      <div className="why-main">
        <span className={`why-tier tone-${tier.tone}`}>
          <Icon name={tier.icon} />
          {tier.word}
        </span>
        <p className="why-sentence">
          <Sentence text={reason.sentence} nameOf={nameOf} now={now} />.
        </p>
        <p className="muted">{reason.remedy}.</p>
        <Remedies job={job} reason={reason} nameOf={nameOf} />
        {reasons.length > 1 && (
          <details className="why-more">
            <summary>{count(reasons.length - 1, "further reason")}</summary>
            <ul>
              {reasons.slice(1).map((other) => (
                <li key={other.code}>
                  <span className={`why-tier tone-${lookOf(other).tone}`}>{lookOf(other).word}</span>{" "}
                  <Sentence text={other.sentence} nameOf={nameOf} now={now} />.
                </li>
              ))}
            </ul>
          </details>
        )}
      </div>
      <dl className="why-numbers">
        <div>
          <dt>Starts</dt>
          <dd>{tier.stuck || job.held ? "not as requested" : (words?.about ?? "no start in sight")}</dd>
          {words !== null && words.range !== "" && <dd className="muted">{words.range}</dd>}
        </div>
        <div>
          <dt>Queue position</dt>
          <dd>{position === null ? "—" : `${position} of ${waiting}`}</dd>
        </div>
        <Amount name={reason.unit === "seconds" ? "Asks for" : "Needs"} value={reason.needed} unit={reason.unit} />
        <Amount name={reason.code === "runs_into_lease" ? "Time until the lease" : reason.unit === "seconds" || reason.code.endsWith("_limit") ? "Allowed" : "Free"} value={reason.free} unit={reason.unit} />
        <Amount name="Limit" value={reason.limit} unit={reason.unit} />
        <div>
          <dt>Waiting for</dt>
          <dd>{duration(now - job.submitted_ms)}</dd>
        </div>
      </dl>
    </section>
  );
}

function Amount({ name, value, unit }: { name: string; value: number | null; unit: string }): ReactElement | null {
  return value === null ? null : (
    <div>
      <dt>{name}</dt>
      <dd>{amountOf(value, unit)}</dd>
    </div>
  );
}

/** What the job asks for, as a wish of its own: to learn which lesser one would start now. */
function useLesser(job: Job, enabled: boolean): Lesser[] {
  const detail = useQuery({ ...jobQuery(job.job_id), enabled });
  const wish = useMemo<Wish | null>(() => {
    if (!enabled || detail.data === undefined || job.gpus === 0) {
      return null;
    }
    const fields = readForm({ ...formOf(detail.data), name: "" }).fields;
    return fields === null ? null : { ...fields, team: job.team };
  }, [enabled, detail.data, job.gpus, job.team]);
  return useQuery(answerQuery(wish)).data?.smaller ?? [];
}

function Remedies({ job, reason, nameOf }: { job: Job; reason: Reason; nameOf: (id: string) => string }): ReactElement | null {
  const [open, setOpen] = useState<"edit" | "stop" | null>(null);
  const act = useAct();
  const remedies = remediesFor(job, reason, useLesser(job, reason.code !== "held"), nameOf);
  if (remedies.length === 0) {
    return null;
  }
  const lead = remedies[0];
  return (
    <>
      <div className="row wrap">
        {remedies.map((remedy, at) => (
          <RemedyButton
            key={`${remedy.act}-${at}`}
            job={job}
            remedy={remedy}
            first={at === 0}
            onOpen={setOpen}
            onAct={(what, doing) => void act(what, doing)}
          />
        ))}
      </div>
      {lead !== undefined && lead.act === "change" && <YardLine line={jobLine.requeue(job.job_id, lead.change)} />}
      {lead !== undefined && lead.act === "release" && <YardLine line={jobLine.release(job.job_id)} />}
      {open === "edit" && <RequeueDialog job={job} onClose={() => setOpen(null)} />}
      {open === "stop" && <StopDialog job={job} onClose={() => setOpen(null)} />}
    </>
  );
}

function RemedyButton(props: { job: Job; remedy: Remedy; first: boolean; onOpen: (open: "edit" | "stop") => void; onAct: (what: string, doing: Promise<unknown>) => void }): ReactElement {
  const { job, remedy } = props;
  const look = `btn small${props.first ? " primary" : ""}`;
  switch (remedy.act) {
    case "release":
      return (
        <button type="button" className={look} title={jobLine.release(job.job_id)} onClick={() => props.onAct(`Released ${jobName(job)}`, releaseJob(job.job_id))}>
          Release it
        </button>
      );
    case "change":
      return (
        <button type="button" className={look} title={jobLine.requeue(job.job_id, remedy.change)} onClick={() => props.onAct(`Changed ${jobName(job)}`, requeueJob(job.job_id, remedy.change))}>
          {remedy.word}
        </button>
      );
    case "edit":
    case "stop":
      return (
        <button type="button" className={look} onClick={() => props.onOpen(remedy.act)}>
          {remedy.word}
        </button>
      );
    case "copy":
      return (
        <Link className={look} to="/app/submit" search={{ from: job.job_id }}>
          {remedy.word}
        </Link>
      );
    case "nodes":
      return (
        <Link className={look} to="/app/nodes" search={{}}>
          {remedy.word}
        </Link>
      );
    default:
      return (
        <Link className={look.replace(" primary", "")} to="/app/jobs/$jobId" params={{ jobId: remedy.job }} search={{}}>
          {remedy.word}
        </Link>
      );
  }
}
