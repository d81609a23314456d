/** The queue's answer to a wish: feasible or not, about when, behind whom, and what would start now. */
import type { ReactElement } from "react";

import type { Answer, Smaller } from "../../api/jobs";
import { useJobNames } from "../../features/job/use-job";
import { Sentence } from "../../features/job/parts";
import { etaWords } from "../../features/job/eta";
import { lookOf } from "../../lib/reasons";
import { Icon, type IconName } from "../../ui/icon";
import { useNow } from "../../ui/parts";

interface Props {
  empty: boolean;
  faults: number;
  answer: Answer | undefined;
  error: Error | null;
  onTake: (smaller: Smaller) => void;
}

function verdict(answer: Answer): { word: string; icon: IconName; tone: string } {
  if (answer.starts_now) {
    return { word: "Starts at once", icon: "play", tone: "green" };
  }
  return answer.feasible ? { word: "Waits", icon: "clock", tone: "amber" } : { word: "Cannot start as asked", icon: "warn", tone: "red" };
}

export function AnswerCard({ empty, faults, answer, error, onTake }: Props): ReactElement {
  const now = useNow(5000);
  const nameOf = useJobNames(answer !== undefined && !answer.starts_now);
  if (error !== null) {
    return (
      <section className="card answer" role="alert">
        <strong className="row tone-red">
          <Icon name="warn" />
          The queue rejects this job
        </strong>
        <p className="clip-wrap">{error.message}</p>
      </section>
    );
  }
  if (answer === undefined) {
    return (
      <section className="card answer">
        <strong className="row muted">
          <Icon name="help" />
          {empty ? "Write a command" : faults > 0 ? "Fix the marked fields" : "Asking the queue"}
        </strong>
        <p className="muted">Whether and when the job would start is shown here.</p>
      </section>
    );
  }
  const { word, icon, tone } = verdict(answer);
  const words = etaWords(answer.eta, now);
  const reason = answer.reasons[0];
  return (
    <section className="card answer" aria-label="Answer of the queue" aria-live="polite">
      <strong className={`row tone-${tone} answer-word`}>
        <Icon name={icon} />
        {word}
      </strong>
      <p>
        <Sentence text={answer.sentence} nameOf={nameOf} now={now} />
      </p>
      {!answer.starts_now && (
        <dl className="env-grid" style={{ padding: 0 }}>
          {reason !== undefined && (
            <>
              <dt>Reason</dt>
              <dd className={`tone-${lookOf(reason).tone}`}>{lookOf(reason).word}</dd>
            </>
          )}
          {answer.feasible && (
            <>
              <dt>Starts</dt>
              <dd>{words === null ? "no start in sight" : `${words.about}${words.range === "" ? "" : ` (${words.range})`}`}</dd>
            </>
          )}
          {answer.position !== null && (
            <>
              <dt>Queue position</dt>
              <dd>
                {answer.position} of {answer.waiting + 1}
              </dd>
            </>
          )}
          {reason !== undefined && (
            <>
              <dt>What helps</dt>
              <dd>{reason.remedy}.</dd>
            </>
          )}
        </dl>
      )}
      {answer.smaller.length > 0 && (
        <div className="stack" style={{ gap: 6 }}>
          <h3>Would start now</h3>
          {answer.smaller.map((one) => (
            <button key={one.sentence} type="button" className="btn answer-take" onClick={() => onTake(one)}>
              <Icon name="play" />
              {one.sentence}
            </button>
          ))}
        </div>
      )}
    </section>
  );
}
