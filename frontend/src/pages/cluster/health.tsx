/** A node's health on its card: one word, and behind it the checks, what it is made of and the log of verdicts. */
import { useQuery } from "@tanstack/react-query";
import { useState, type ReactElement } from "react";

import { quarantineNode, undrainNode, verdictsQuery, type Check, type Node } from "../../api/cluster";
import { useAct } from "../../features/job/actions";
import { count } from "../../lib/format";
import { jobLine } from "../../lib/job-lines";
import { byGravity, hardwareRows, verdictState } from "../../lib/node-health";
import { Icon } from "../../ui/icon";
import { Dialog } from "../../ui/menu";
import { Ago, ErrorCard, Skeleton, YardLine } from "../../ui/parts";

export function NodeHealth({ node }: { node: Node }): ReactElement {
  const [open, setOpen] = useState(false);
  const bad = node.checks.filter((check) => check.verdict !== "ok").length;
  return (
    <details className="node-health" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <Verdict word={node.health} />
        <span className="faint clip">
          {node.checks.length === 0 ? "no check was made" : bad === 0 ? `${count(node.checks.length, "check")} hold` : `${bad} of ${count(node.checks.length, "check")} do not hold`}
        </span>
        <Icon name={open ? "up" : "down"} />
      </summary>
      <ul className="node-checks" aria-label={`Checks of ${node.node_id}`}>
        {byGravity(node.checks).map((check) => (
          <CheckLine key={check.name} check={check} />
        ))}
      </ul>
      <dl className="node-facts">
        {hardwareRows(node.properties).map(([name, value]) => (
          <div key={name}>
            <dt className="faint">{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
        {Object.entries(node.own_labels).map(([name, value]) => (
          <div key={`label ${name}`}>
            <dt className="faint">{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      {open && <VerdictLog node={node.node_id} />}
      <YardLine line={jobLine.doctor(node.node_id)} />
    </details>
  );
}

function Verdict({ word }: { word: string }): ReactElement {
  const state = verdictState(word);
  return (
    <span className={`state tone-${state.tone}`}>
      <Icon name={state.icon} />
      {state.word}
    </span>
  );
}

function CheckLine({ check }: { check: Check }): ReactElement {
  return (
    <li>
      <Verdict word={check.verdict} />
      <b>{check.name}</b>
      <span>
        {check.sentence} {check.failed > 1 && <span className="muted">{check.failed} looks in a row.</span>}
      </span>
    </li>
  );
}

function VerdictLog({ node }: { node: string }): ReactElement {
  const log = useQuery(verdictsQuery(node));
  if (log.error !== null) {
    return <ErrorCard title="The verdicts could not be read" error={log.error} retry={() => void log.refetch()} />;
  }
  if (log.data === undefined) {
    return <Skeleton rows={3} />;
  }
  return (
    <table className="plain" aria-label={`Verdicts on ${node}`}>
      <tbody>
        {log.data.verdicts.map((one) => (
          <tr key={one.id}>
            <td className="nowrap faint">
              <Ago ms={one.at_ms} />
            </td>
            <td className="nowrap">
              <Verdict word={one.verdict} />
            </td>
            <td className="nowrap">{one.name}</td>
            <td>{one.sentence}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function QuarantineDialog({ node, onClose }: { node: string; onClose: () => void }): ReactElement {
  const [why, setWhy] = useState("");
  const act = useAct();
  return (
    <Dialog title={`Quarantine ${node}?`} onClose={onClose}>
      <p className="muted">What runs there goes on; nothing new starts until someone gives it back. No health check lifts this.</p>
      <label className="label">
        What is wrong with it
        <input className="field" value={why} placeholder="fans are loud" onChange={(event) => setWhy(event.target.value)} />
      </label>
      <YardLine line={jobLine.quarantine(node, why)} />
      <div className="dialog-foot">
        <button type="button" className="btn" onClick={onClose}>
          Leave it
        </button>
        <button
          type="button"
          className="btn danger"
          disabled={why.trim() === ""}
          onClick={() => {
            onClose();
            void act(`Quarantined ${node}`, quarantineNode(node, why), () => void act(`${node} takes jobs again`, undrainNode(node)));
          }}
        >
          Quarantine
        </button>
      </div>
    </Dialog>
  );
}
