/** A lease to be made or changed: the form, the calendar's answer to a dry run, and the button that does it. */
import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/react-query";
import { useDeferredValue, useState, type FormEvent, type ReactElement } from "react";

import { changeLease, createLease, type CalendarRow, type LeaseAnswer } from "../../api/leases";
import type { Proposal } from "../../features/calendar/calendar";
import { verbOf, type Draft, type Verb } from "../../lib/calendar-rows";
import { formTime, offsetAt, readForm, span } from "../../lib/calendar-time";
import { duration } from "../../lib/format";
import { leaseLine, type LeaseWish } from "../../lib/lease-lines";
import { Dialog } from "../../ui/menu";
import { YardLine } from "../../ui/parts";
import { toast } from "../../ui/toast";
import { AnswerCard, UNNAMED } from "./answer";

interface Props {
  proposal: Proposal;
  types: readonly string[];
  rows: readonly CalendarRow[];
  onChange: (proposal: Proposal) => void;
  onClose: () => void;
}

const WORDS: Record<Verb, string> = { extend: "Extend", shrink: "Shrink", move: "Move" };

interface More {
  name: string;
  type: string;
  where: string;
  count: number;
  purpose: string;
  before_end: string;
  personal: boolean;
}

export function LeaseDialog({ proposal, types, rows, onChange, onClose }: Props): ReactElement {
  const client = useQueryClient();
  const { lease } = proposal;
  const [before] = useState<Draft>(() => (lease === null ? proposal : { starts_ms: lease.starts_ms, ends_ms: lease.ends_ms, nodes: proposal.held }));
  const [more, setMore] = useState<More>({ name: "", type: types[0] ?? "", where: "", count: 1, purpose: "", before_end: "drain", personal: false });
  const [fault, setFault] = useState<Error | null>(null);
  const [isDoing, setDoing] = useState(false);
  const draft: Draft = { starts_ms: proposal.starts_ms, ends_ms: proposal.ends_ms, nodes: proposal.nodes };
  const wish: LeaseWish = { ...more, ...draft, ...(draft.nodes.length > 0 ? { type: "", where: "" } : {}) };
  const isFrozen = lease !== null && lease.state !== "pending";
  const verb = lease === null ? null : verbOf(before, draft);
  const asked = useDeferredValue(JSON.stringify({ wish, verb }));
  const isWhole = lease === null ? isEnough(wish) : verb !== null;
  const act = (dryRun: boolean): Promise<LeaseAnswer> => {
    if (lease === null) {
      // A dry run needs a name, too; the real one is asked for below.
      return createLease({ ...wish, name: wish.name === "" && dryRun ? UNNAMED : wish.name }, dryRun);
    }
    return changeLease(lease.lease_id, verb ?? "move", before, draft, dryRun);
  };
  const answer = useQuery({
    queryKey: ["lease-dry-run", lease?.lease_id ?? "", asked],
    queryFn: () => act(true),
    enabled: isWhole && wish.ends_ms > wish.starts_ms,
    placeholderData: keepPreviousData,
    retry: false,
    staleTime: 0,
    gcTime: 0,
  });
  const confirm = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    setDoing(true);
    try {
      const done = await act(false);
      void client.invalidateQueries({ queryKey: ["leases"] });
      toast(done.sentence);
      onClose();
    } catch (cause) {
      setFault(cause instanceof Error ? cause : new Error(String(cause)));
      setDoing(false);
    }
  };
  const place = (change: Partial<Draft>): void => {
    setFault(null);
    onChange({ ...proposal, ...change });
  };
  return (
    <Dialog title={lease === null ? "New lease" : `Change lease ${lease.name}`} wide onClose={onClose}>
      <form className="dialog-body" style={{ padding: 0 }} onSubmit={(event) => void confirm(event)}>
        <div className="lease-form">
          {lease === null && <Name value={more.name} onChange={(name) => setMore({ ...more, name })} />}
          <Nodes draft={draft} more={more} types={types} rows={rows} canChoose={!isFrozen} isNew={lease === null} onNodes={(nodes) => place({ nodes })} onMore={(change) => setMore({ ...more, ...change })} />
          <Times draft={draft} before={lease === null || verb === null ? null : before} frozen={isFrozen} onChange={place} />
          {lease === null && <Purpose more={more} onMore={(change) => setMore({ ...more, ...change })} />}
        </div>
        <AnswerCard
          answer={isWhole ? answer.data : undefined}
          fault={fault ?? answer.error}
          isAsking={answer.isFetching}
          onSlot={(slot) => place({ starts_ms: slot.starts_ms, ends_ms: slot.ends_ms, nodes: draft.nodes.length === 0 ? [] : slot.nodes })}
        />
        <YardLine line={lineOf(lease?.name ?? null, verb, wish, before)} />
        <div className="dialog-foot">
          <button type="button" className="btn" onClick={onClose}>
            {lease === null ? "Not now" : "Leave it as it is"}
          </button>
          <button type="submit" className="btn primary" disabled={[isDoing, answer.error !== null, fault !== null, !isWhole, answer.data === undefined].some(Boolean)}>
            {verb === null ? "Lease" : WORDS[verb]}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function lineOf(name: string | null, verb: Verb | null, wish: LeaseWish, before: Draft): string {
  if (name === null) {
    return leaseLine.add(wish);
  }
  return verb === null ? leaseLine.show(name) : leaseLine.change(name, verb, before, wish);
}

/** Whether enough is said to ask the calendar. */
function isEnough(wish: LeaseWish): boolean {
  return wish.nodes.length > 0 || wish.type !== "" || wish.where !== "";
}

interface TimesProps {
  draft: Draft;
  /** as it is now, where that differs */
  before: Draft | null;
  /** a lease that has begun keeps its start */
  frozen: boolean;
  onChange: (change: Partial<Draft>) => void;
}

function Times({ draft, before, frozen, onChange }: TimesProps): ReactElement {
  return (
    <>
      <Moment label="From" value={draft.starts_ms} disabled={frozen} onChange={(starts_ms) => onChange({ starts_ms })} />
      <Moment label="To" value={draft.ends_ms} onChange={(ends_ms) => onChange({ ends_ms })} />
      <span className="wide muted">
        {span(draft.starts_ms, draft.ends_ms)}, {duration(draft.ends_ms - draft.starts_ms)}
        {before !== null && <span className="faint">; now {span(before.starts_ms, before.ends_ms)}</span>}
      </span>
    </>
  );
}

function Name({ value, onChange }: { value: string; onChange: (name: string) => void }): ReactElement {
  return (
    <label className="label wide">
      Name
      {/* oxlint-disable-next-line jsx-a11y/no-autofocus -- the one thing that a drag does not say */}
      <input className="field" autoFocus required pattern="[A-Za-z0-9][A-Za-z0-9._\-]*" maxLength={80} title="letters, digits and . _ -" placeholder="mltrain_ada" value={value} onChange={(event) => onChange(event.target.value)} />
    </label>
  );
}

function Moment(props: { label: string; value: number; disabled?: boolean; onChange: (ms: number) => void }): ReactElement {
  return (
    <label className="label">
      {props.label} ({offsetAt(props.value)})
      <input
        className="field"
        type="datetime-local"
        required
        disabled={props.disabled}
        value={formTime(props.value)}
        onChange={(event) => {
          const ms = readForm(event.target.value);
          if (ms !== null) {
            props.onChange(ms);
          }
        }}
      />
    </label>
  );
}

interface NodesProps {
  draft: Draft;
  more: More;
  types: readonly string[];
  rows: readonly CalendarRow[];
  canChoose: boolean;
  isNew: boolean;
  onNodes: (nodes: string[]) => void;
  onMore: (more: Partial<More>) => void;
}

/** Nodes by name, or so many of a kind. */
function Nodes({ draft, more, types, rows, canChoose, isNew, onNodes, onMore }: NodesProps): ReactElement {
  const left = rows.filter((row) => !draft.nodes.includes(row.node_id));
  return (
    <>
      <div className="label wide">
        Nodes
        <div className="row wrap">
          {draft.nodes.map((node) => (
            <span key={node} className="chip accent">
              {node}
              {(canChoose || draft.nodes.length > 1) && (isNew || draft.nodes.length > 1) && (
                <button type="button" aria-label={`Without ${node}`} onClick={() => onNodes(draft.nodes.filter((one) => one !== node))}>
                  ×
                </button>
              )}
            </span>
          ))}
          {canChoose && left.length > 0 && (
            <select className="field" aria-label="Add a node" value="" onChange={(event) => event.target.value !== "" && onNodes([...draft.nodes, event.target.value])}>
              <option value="">{draft.nodes.length === 0 ? "any of a type, or name one" : "and…"}</option>
              {left.map((row) => (
                <option key={row.node_id} value={row.node_id}>
                  {row.node_id} {row.gpu_type}
                </option>
              ))}
            </select>
          )}
        </div>
      </div>
      {isNew && draft.nodes.length === 0 && (
        <>
          <label className="label">
            Type
            <select className="field" value={more.type} onChange={(event) => onMore({ type: event.target.value })}>
              <option value="">any</option>
              {types.map((type) => (
                <option key={type}>{type}</option>
              ))}
            </select>
          </label>
          <label className="label">
            How many
            <input className="field" type="number" min={1} max={10_000} value={more.count} onChange={(event) => onMore({ count: Math.max(1, Number(event.target.value)) })} />
          </label>
          <label className="label wide">
            That meet
            <input className="field" placeholder="gpu.count >= 2 and gpu.memory >= 40GB" value={more.where} onChange={(event) => onMore({ where: event.target.value })} />
          </label>
        </>
      )}
    </>
  );
}

function Purpose({ more, onMore }: { more: More; onMore: (more: Partial<More>) => void }): ReactElement {
  return (
    <>
      <label className="label">
        What for
        <input className="field" maxLength={500} value={more.purpose} onChange={(event) => onMore({ purpose: event.target.value })} />
      </label>
      <label className="label">
        Before it ends
        <select className="field" value={more.before_end} onChange={(event) => onMore({ before_end: event.target.value })}>
          <option value="drain">jobs save and stop in time</option>
          <option value="notify">only tell me</option>
        </select>
      </label>
      <label className="row wide">
        <input type="checkbox" checked={more.personal} onChange={(event) => onMore({ personal: event.target.checked })} />
        For me alone, not for the whole team
      </label>
    </>
  );
}
