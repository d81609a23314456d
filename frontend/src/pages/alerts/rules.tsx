/** The rules of the team, and a line to write a new one. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, type FormEvent, type ReactElement } from "react";

import { addRule, removeRule, rulesQuery, type AlertRule } from "../../api/alerts";
import { shell } from "../../lib/yard-line";
import { ErrorCard, IconButton, Skeleton, YardLine } from "../../ui/parts";
import { complain, toast } from "../../ui/toast";

const EXAMPLES = [
  "loss > 10 for 5m",
  "loss rises 50% in 10m",
  "nan",
  "no loss for 15m",
  "stall 20m",
  "state failed",
  "log xid",
  "node unhealthy",
  "lease ending",
  "wait > 2h",
];

export function Rules(): ReactElement {
  const { data, error, refetch } = useQuery(rulesQuery());
  if (data === undefined) {
    return error === null ? (
      <Skeleton />
    ) : (
      <ErrorCard title="The rules could not be read" error={error} retry={() => void refetch()} />
    );
  }
  const rules = data.rules.filter((rule) => rule.enabled);
  return (
    <>
      <NewRule />
      <section className="card">
        {rules.length === 0 ? (
          <p className="muted card-text">
            No rules yet. Write one above, or give a job its own with `yard submit --alert &apos;state failed&apos;`.
          </p>
        ) : (
          <table className="plain">
            <thead>
              <tr>
                <th>Rule</th>
                <th>For</th>
                <th>Told by</th>
                <th>Cooldown</th>
                <th>By</th>
                <th aria-label="Actions" />
              </tr>
            </thead>
            <tbody>
              {rules.map((rule) => (
                <Row key={rule.id} rule={rule} />
              ))}
            </tbody>
          </table>
        )}
      </section>
    </>
  );
}

function Row({ rule }: { rule: AlertRule }): ReactElement {
  const client = useQueryClient();
  const remove = (): void => {
    removeRule(rule.id).then(
      () => {
        void client.invalidateQueries({ queryKey: ["alerts"] });
        const undo = (): void =>
          void addRule(rule.text, rule.scope).then(() => client.invalidateQueries({ queryKey: ["alerts"] }));
        toast(`“${rule.text}” is removed`, { word: "Undo", run: undo }, `yard alert rm ${rule.id}`);
      },
      (error: unknown) => complain("The rule was not removed", error),
    );
  };
  return (
    <tr>
      <td>
        <code>{rule.text}</code>
        {rule.severity === "critical" && <span className="state tone-red"> critical</span>}
      </td>
      <td>{rule.is_all_teams ? "all teams" : rule.scope === "" ? "the team" : rule.scope}</td>
      <td>{rule.via.length === 0 ? "inbox" : rule.via.join(", ")}</td>
      <td>{Math.round(rule.cooldown_seconds / 60)} min</td>
      <td>{rule.actor}</td>
      <td>
        <IconButton icon="trash" label={`Remove ${rule.text}`} onClick={remove} />
      </td>
    </tr>
  );
}

function NewRule(): ReactElement {
  const [text, setText] = useState("");
  const [fault, setFault] = useState("");
  const client = useQueryClient();
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    addRule(text).then(
      () => {
        setText("");
        setFault("");
        void client.invalidateQueries({ queryKey: ["alerts"] });
      },
      (error: unknown) => setFault(error instanceof Error ? error.message : String(error)),
    );
  };
  return (
    <section className="card card-text">
      <form className="row alert-form" onSubmit={submit}>
        <input
          className="grow"
          aria-label="New rule"
          placeholder="loss > 10 for 5m via ops"
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
        <button type="submit" className="btn primary" disabled={text.trim() === ""}>
          Add rule
        </button>
      </form>
      {fault !== "" && (
        <p className="tone-red" role="alert">
          {fault}
        </p>
      )}
      <div className="row alert-examples">
        {EXAMPLES.map((example) => (
          <button key={example} type="button" className="btn small quiet" onClick={() => setText(example)}>
            {example}
          </button>
        ))}
      </div>
      <YardLine line={`yard alert add ${shell(text === "" ? EXAMPLES[0] ?? "" : text)}`} />
    </section>
  );
}
