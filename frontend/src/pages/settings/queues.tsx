/** Queues and their rules. */
import { useQuery } from "@tanstack/react-query";
import { useState, type ReactElement } from "react";

import { queueRulesQuery, removeQueue, setQueue, type QueueRules, type QueueView } from "../../api/settings";
import type { Session } from "../../api/session";
import { amountOfTime } from "../../lib/amounts";
import { short } from "../../lib/format";
import { shell } from "../../lib/yard-line";
import { Icon } from "../../ui/icon";
import { ErrorCard, Skeleton } from "../../ui/parts";
import { ClassFields, classFlags } from "./classes";
import { LimitFields, useLimits, type LimitField } from "./limit-fields";
import { Choice, FormDialog, Part, Text, useDo } from "./parts";

/** The rules that are not as they come, in a few words. */
export function rulesOf(rules: QueueRules): string {
  const amount = (value: number | null | undefined, words: string): string[] => (value === null || value === undefined ? [] : [`${short(value)} ${words}`]);
  const time = rules.max_wall_seconds ?? null;
  return [
    ...((rules.order ?? "") === "" ? [] : [`order ${rules.order}`]),
    ...amount(rules.quota_gpus, "GPUs in all"),
    ...amount(rules.max_running, "jobs at once"),
    ...amount(rules.max_gpus_per_job, "GPUs a job"),
    ...amount(rules.max_nodes_per_job, "nodes a job"),
    ...(time === null ? [] : [`jobs up to ${amountOfTime(time)}`]),
    ...amount(rules.max_gpus_per_user, "GPUs a user"),
    ...amount(rules.max_running_per_user, "jobs a user"),
    ...((rules.preemptible_default ?? "no") === "no" ? [] : [rules.preemptible_default === "always" ? "always preemptible" : "preemptible unless told otherwise"]),
  ].join(", ");
}

export function QueuesPart({ session }: { session: Session }): ReactElement {
  const queues = useQuery(queueRulesQuery());
  const act = useDo();
  const [editing, setEditing] = useState<QueueView | "new" | null>(null);
  const [removing, setRemoving] = useState<string | null>(null);
  return (
    <Part
      title="Queues"
      about={session.is_admin ? "" : "platform admins change them"}
      actions={
        session.is_admin && (
          <button type="button" className="btn small primary" onClick={() => setEditing("new")}>
            <Icon name="plus" />
            New queue
          </button>
        )
      }
    >
      {queues.error !== null && <ErrorCard title="The queues could not be read" error={queues.error} retry={() => void queues.refetch()} />}
      {queues.data === undefined ? (
        <Skeleton rows={3} />
      ) : (
        <div className="settings-scroll">
          <table className="plain">
            <thead>
              <tr>
                <th>Queue</th>
                <th>Teams</th>
                <th>Rules</th>
                <th className="num">Waiting</th>
                <th className="num">Running</th>
                <th className="num">In use, GPUs</th>
                <th>
                  <span className="sr-only">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {queues.data.map((queue) => (
                <tr key={queue.name}>
                  <td>{queue.name}</td>
                  <td>{((queue.settings as QueueRules).teams ?? []).join(", ") || <span className="faint">all</span>}</td>
                  <td className="clip-wrap">{rulesOf(queue.settings) || <span className="faint">no limits</span>}</td>
                  <td className="num">{queue.queued}</td>
                  <td className="num">{queue.running}</td>
                  <td className="num">{short(queue.gpus_running)}</td>
                  <td className="num nowrap">
                    {session.is_admin && (
                      <>
                        <button type="button" className="btn quiet small" aria-label={`Edit ${queue.name}`} onClick={() => setEditing(queue)}>
                          Edit
                        </button>
                        {queue.name !== "default" && (
                          <button type="button" className="btn quiet small" aria-label={`Remove ${queue.name}`} onClick={() => setRemoving(queue.name)}>
                            Remove
                          </button>
                        )}
                      </>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {editing !== null && <EditQueue queue={editing === "new" ? null : editing} onClose={() => setEditing(null)} />}
      {removing !== null && (
        <FormDialog
          title={`Remove queue ${removing}?`}
          verb="Remove"
          danger
          line={`yard queue remove ${shell(removing)}`}
          onClose={() => setRemoving(null)}
          onSubmit={async () => {
            await act(removeQueue(removing), `Removed queue ${removing}`);
            setRemoving(null);
          }}
        >
          <p>Only an empty queue can be removed. Jobs that ended keep its name.</p>
        </FormDialog>
      )}
    </Part>
  );
}

const FIELDS: readonly LimitField[] = [
  { key: "quota_gpus", label: "GPUs in all", kind: "number", flag: "--quota" },
  { key: "max_running", label: "Jobs at once", kind: "whole", flag: "--max-running" },
  { key: "max_gpus_per_job", label: "GPUs of one job", kind: "number", flag: "--max-gpus" },
  { key: "max_nodes_per_job", label: "Nodes of one job", kind: "whole", flag: "--max-nodes" },
  { key: "max_wall_seconds", label: "Longest time limit", kind: "time", flag: "--max-time" },
  { key: "max_gpus_per_user", label: "GPUs of one user", kind: "number", flag: "--max-user-gpus" },
  { key: "max_running_per_user", label: "Jobs of one user", kind: "whole", flag: "--max-user-running" },
  { key: "max_cpus_per_job", label: "CPUs of one job", kind: "number", flag: "--max-cpus" },
  { key: "max_memory_per_job_bytes", label: "Memory of one job", kind: "memory", flag: "--max-memory" },
  { key: "default_cpus", label: "CPUs where none are asked for", kind: "number", flag: "--default-cpus" },
  { key: "default_memory_bytes", label: "Memory where none is asked for", kind: "memory", flag: "--default-memory" },
  { key: "default_cpus_per_gpu", label: "CPUs with each GPU", kind: "number", flag: "--default-cpus-per-gpu" },
  { key: "default_memory_per_gpu_bytes", label: "Memory with each GPU", kind: "memory", flag: "--default-memory-per-gpu" },
];
const ORDERS = [
  ["", "the server's"],
  ["default", "default: short jobs first, fairly"],
  ["fifo", "first come, first served"],
  ["fair", "fair by use"],
  ["dominant", "fair by the scarcest resource"],
  ["shortest", "shortest first"],
] as const;
const PREEMPTIBLE = [
  ["no", "only if they say so"],
  ["yes", "unless they say no"],
  ["always", "always"],
] as const;

interface Rules {
  teams: string[];
  rank: number;
  order: string;
  preemptible_default: string;
  zero_cpus: boolean;
  classes: Record<string, string>;
}

const rulesFrom = ({ teams = [], rank = 0, order = "", preemptible_default = "no", zero_cpus = true, classes = {} }: QueueRules): Rules => ({
  teams,
  rank,
  order,
  preemptible_default,
  zero_cpus,
  classes,
});

/** The flags that make one set of rules of another. */
export function ruleFlags(before: Rules, after: Rules): string[] {
  const changed = (key: keyof Rules, ...words: string[]): string[] => (JSON.stringify(before[key]) === JSON.stringify(after[key]) ? [] : words);
  return [
    ...changed("teams", "--teams", after.teams.length === 0 ? "all" : shell(after.teams.join(","))),
    ...changed("rank", "--rank", String(after.rank)),
    ...(after.order === "" ? [] : changed("order", "--order", after.order)),
    ...changed("preemptible_default", "--preemptible-default", after.preemptible_default),
    ...changed("zero_cpus", "--zero-cpus", after.zero_cpus ? "yes" : "no"),
    ...classFlags(before.classes, after.classes),
  ];
}

function EditQueue({ queue, onClose }: { queue: QueueView | null; onClose: () => void }): ReactElement {
  const act = useDo();
  const known: QueueRules = queue?.settings ?? {};
  const before = rulesFrom(known);
  const [name, setName] = useState(queue?.name ?? "");
  const [rules, setRules] = useState(before);
  const [teams, setTeams] = useState(before.teams.join(", "));
  const [rank, setRank] = useState(String(before.rank));
  const limits = useLimits(FIELDS, known as Record<string, number | null>);
  const isRank = /^-?\d+$/.test(rank.trim());
  const named = teams.split(",").map((one) => one.trim()).filter((one) => one !== "");
  const after = { ...rules, teams: named, rank: Number(rank) };
  const change = (part: Partial<Rules>): void => setRules({ ...rules, ...part });
  const save = async (): Promise<void> => {
    await act(setQueue(name, { ...known, ...limits.read, ...after }), queue === null ? `Created queue ${name}` : `Changed queue ${name}`);
    onClose();
  };
  const { order, preemptible_default: preemptible, zero_cpus: zero, classes } = rules;
  return (
    <FormDialog
      wide
      title={queue === null ? "New queue" : `Queue ${queue.name}`}
      verb={queue === null ? "Create queue" : "Save"}
      line={["yard queue set", shell(name === "" ? "NAME" : name), ...ruleFlags(before, after), ...limits.flags].join(" ")}
      disabled={limits.read === null || !isRank || name.trim() === ""}
      onClose={onClose}
      onSubmit={save}
    >
      <div className="settings-grid">
        {queue === null && <Text label="Name" value={name} onChange={setName} />}
        <Text label="Teams" value={teams} onChange={setTeams} hint="all" help="Names, with commas between them" />
        <Text label="Rank" value={rank} onChange={setRank} help="Lower goes first" fault={isRank ? undefined : "A whole number"} />
        <Choice label="Order" value={order} options={ORDERS} onChange={(value) => change({ order: value })} />
        <Choice label="Jobs may be preempted" value={preemptible} options={PREEMPTIBLE} onChange={(value) => change({ preemptible_default: value })} />
      </div>
      <label className="row">
        <input type="checkbox" checked={zero} onChange={(event) => change({ zero_cpus: event.target.checked })} />
        Jobs may ask for no CPUs
      </label>
      <LimitFields fields={FIELDS} limits={limits} />
      <ClassFields classes={classes} onChange={(value) => change({ classes: value })} />
    </FormDialog>
  );
}
