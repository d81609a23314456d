/** What the calendar answers before anything is changed: which jobs move, or what is in the way and where it would fit. */
import { Link } from "@tanstack/react-router";
import type { ReactElement } from "react";

import { refusalOf, type JobEffect, type LeaseAnswer, type Refusal, type Slot } from "../../api/leases";
import { span } from "../../lib/calendar-time";
import { count } from "../../lib/format";
import { effectOf } from "../../lib/lease-lines";
import { Icon } from "../../ui/icon";

/** The name under which a lease is asked about before it has one. */
export const UNNAMED = "unnamed";

interface Props {
  answer: LeaseAnswer | undefined;
  fault: Error | null;
  isAsking: boolean;
  onSlot: (slot: Slot) => void;
}

export function AnswerCard({ answer, fault, isAsking, onSlot }: Props): ReactElement {
  const refusal = refusalOf(fault);
  if (refusal !== null) {
    return <Refused refusal={refusal} onSlot={onSlot} />;
  }
  if (fault !== null) {
    return (
      <div className="lease-answer refused" role="alert">
        <strong className="state tone-red">
          <Icon name="warn" />
          {fault.message}
        </strong>
      </div>
    );
  }
  if (answer === undefined) {
    return <div className="lease-answer muted">{isAsking ? "Asking the calendar…" : "Say which nodes, from when to when."}</div>;
  }
  return (
    <div className="lease-answer" role="status" aria-label="Answer of the calendar">
      <strong className="state tone-green">
        <Icon name="tick" />
        {answer.sentence.replace(`Lease ${UNNAMED}`, "The lease")}
      </strong>
      {answer.effects.length === 0 ? <span className="muted">No job moves.</span> : <b>{count(answer.effects.length, "job")} would be touched:</b>}
      <Effects effects={answer.effects} />
      {answer.warnings.map((warning) => (
        <span key={warning} className="state tone-amber">
          <Icon name="warn" />
          {warning}
        </span>
      ))}
    </div>
  );
}

function Effects({ effects }: { effects: readonly JobEffect[] }): ReactElement | null {
  return effects.length === 0 ? null : (
    <ul className="lease-effects">
      {effects.map((one, at) => {
        const effect = effectOf(one.effect);
        return (
          <li key={`${one.job_id}-${at}`}>
            <b className={`tone-${effect.tone}`}>
              {one.job_id === "" ? (
                `A job of ${one.team}`
              ) : (
                <Link to="/app/jobs/$jobId" params={{ jobId: one.job_id }} search={{}}>
                  {one.name === "" ? one.job_id : one.name}
                </Link>
              )}
            </b>
            {one.user !== "" && <span className="faint"> of {one.user}</span>} on {one.node_ids.join(", ")} {one.sentence}
          </li>
        );
      })}
    </ul>
  );
}

function Refused({ refusal, onSlot }: { refusal: Refusal; onSlot: (slot: Slot) => void }): ReactElement {
  return (
    <div className="lease-answer refused" role="alert">
      <strong className="state tone-red">
        <Icon name="cross" />
        {refusal.sentence}
      </strong>
      {refusal.conflicts.map((one) => (
        <span key={one.lease_id}>
          In the way: <b>{one.name}</b> of {one.user} (team {one.team}) on {one.nodes.join(", ")}, {span(one.starts_ms, one.ends_ms)}
        </span>
      ))}
      <Effects effects={refusal.jobs} />
      {refusal.remedy !== "" && <span className="muted">{refusal.remedy}</span>}
      {refusal.slots.length > 0 && (
        <div className="row wrap" role="group" aria-label="Nearest slots">
          {refusal.slots.map((slot) => (
            <button key={`${slot.starts_ms}-${slot.nodes.join()}`} type="button" className="btn small" onClick={() => onSlot(slot)}>
              <Icon name="clock" />
              {span(slot.starts_ms, slot.ends_ms).replace(/ \([^)]*\)$/, "")} on {slot.nodes.join(", ")}
            </button>
          ))}
        </div>
      )}
    </div>
  );
}
