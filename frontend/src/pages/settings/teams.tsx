/** Teams with their shares, quotas and limits. */
import { useQuery } from "@tanstack/react-query";
import { useState, type ReactElement } from "react";

import { makeTeam, setShare, sharesQuery, teamsQuery, type Share } from "../../api/settings";
import type { Session } from "../../api/session";
import { short } from "../../lib/format";
import { shell } from "../../lib/yard-line";
import { Icon } from "../../ui/icon";
import { ErrorCard, Skeleton } from "../../ui/parts";
import { ClassFields, classFlags } from "./classes";
import { LimitFields, useLimits, type LimitField } from "./limit-fields";
import { Choice, FormDialog, Part, Text, useDo } from "./parts";

const limit = (value: number | null): string => (value === null ? "none" : short(value));

export function TeamsPart({ session }: { session: Session }): ReactElement {
  const shares = useQuery(sharesQuery());
  const teams = useQuery(teamsQuery());
  const act = useDo();
  const [changing, setChanging] = useState<Share | null>(null);
  const [adding, setAdding] = useState(false);
  const [name, setName] = useState("");
  const members = new Map((teams.data ?? []).map((team) => [team.name, team.members]));
  return (
    <Part
      title="Teams and quotas"
      about={session.is_admin ? "GPUs that are a team's own, and what it may borrow" : "platform admins change them"}
      actions={
        session.is_admin && (
          <button type="button" className="btn small primary" onClick={() => setAdding(true)}>
            <Icon name="plus" />
            New team
          </button>
        )
      }
    >
      {shares.error !== null && <ErrorCard title="The teams could not be read" error={shares.error} retry={() => void shares.refetch()} />}
      {shares.data === undefined ? (
        <Skeleton rows={3} />
      ) : (
        <div className="settings-scroll">
          <table className="plain">
            <thead>
              <tr>
                <th>Team</th>
                <th className="num">Members</th>
                <th className="num">Share</th>
                <th className="num">Quota, GPUs</th>
                <th className="num">Limit, GPUs</th>
                <th className="num">In use, GPUs</th>
                <th className="num">Jobs running</th>
                <th className="num">Waiting</th>
                <th className="num" title="GPU-hours used, halved every week">
                  Recent use, GPU-h
                </th>
                <th>
                  <span className="sr-only">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {shares.data.map((share) => (
                <tr key={share.team}>
                  <td>
                    {share.team} {share.parent !== "" && <span className="faint">in {share.parent}</span>}
                  </td>
                  <td className="num">{members.get(share.team)}</td>
                  <td className="num">{short(share.share)}</td>
                  <td className="num">{limit(share.quota_gpus)}</td>
                  <td className="num">{limit(share.limit_gpus)}</td>
                  <td className="num">{short(share.gpus_running)}</td>
                  <td className="num">{share.running}</td>
                  <td className="num">{share.queued}</td>
                  <td className="num">{short(share.used_gpu_hours)}</td>
                  <td className="num">
                    {session.is_admin && (
                      <button type="button" className="btn quiet small" aria-label={`Edit ${share.team}`} onClick={() => setChanging(share)}>
                        Edit
                      </button>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {adding && (
        <FormDialog
          title="New team"
          verb="Create team"
          disabled={name.trim() === ""}
          line={`yard team add ${shell(name === "" ? "NAME" : name)}`}
          onClose={() => setAdding(false)}
          onSubmit={async () => {
            await act(makeTeam(name), `Created team ${name}`);
            setAdding(false);
            setName("");
          }}
        >
          <Text label="Name" value={name} onChange={setName} />
        </FormDialog>
      )}
      {changing !== null && <EditShare share={changing} teams={(shares.data ?? []).map((one) => one.team)} onClose={() => setChanging(null)} />}
    </Part>
  );
}

const FIELDS: readonly LimitField[] = [
  { key: "share", label: "Share", kind: "number", flag: "--share", help: "Its weight among the teams beside it" },
  { key: "quota_gpus", label: "Quota, GPUs", kind: "number", flag: "--quota", help: "GPUs that are its own" },
  { key: "limit_gpus", label: "Limit, GPUs", kind: "number", flag: "--limit", help: "Most it may hold at once" },
  { key: "lendable_gpus", label: "Lendable, GPUs", kind: "number", flag: "--lendable", help: "Of its quota, for others' jobs that may not be preempted" },
  { key: "max_running", label: "Jobs at once", kind: "whole", flag: "--max-running" },
  { key: "urgent_gpu_hours", label: "Urgent GPU-hours a week", kind: "number", flag: "--urgent-budget", unit: "h" },
];

function EditShare({ share, teams, onClose }: { share: Share; teams: readonly string[]; onClose: () => void }): ReactElement {
  const act = useDo();
  const limits = useLimits(FIELDS, share as unknown as Record<string, number | null>);
  const [parent, setParent] = useState(share.parent);
  const [classes, setClasses] = useState(share.classes);
  const flags = [...limits.flags, ...(parent === share.parent ? [] : ["--parent", parent === "" ? "none" : shell(parent)]), ...classFlags(share.classes, classes)];
  const line = ["yard team set", shell(share.team), ...flags].join(" ");
  const save = async (): Promise<void> => {
    const read = limits.read ?? {};
    await act(
      setShare(share.team, {
        share: read.share ?? 1,
        parent,
        quota_gpus: read.quota_gpus ?? null,
        limit_gpus: read.limit_gpus ?? null,
        lendable_gpus: read.lendable_gpus ?? 0,
        max_running: read.max_running ?? null,
        urgent_gpu_hours: read.urgent_gpu_hours ?? null,
        classes,
      }),
      `Changed team ${share.team}`,
    );
    onClose();
  };
  return (
    <FormDialog wide title={`Team ${share.team}`} verb="Save" line={line} disabled={limits.read === null} onClose={onClose} onSubmit={save}>
      <LimitFields fields={FIELDS} limits={limits} />
      <Choice
        label="Department"
        value={parent}
        options={[["", "none"], ...teams.filter((name) => name !== share.team).map((name) => [name, name] as const)]}
        onChange={setParent}
      />
      <ClassFields classes={classes} onChange={setClasses} />
    </FormDialog>
  );
}
