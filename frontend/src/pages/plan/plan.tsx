/** Plan: what fits on which GPUs, how fast it is and what it costs, before anything runs. */
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useState, type ReactElement } from "react";

import { planOptionsQuery, planQuery, type PlanOptions, type PlanReply } from "../../api/plans";
import { duration, grouped, short } from "../../lib/format";
import {
  CHOICES,
  COLUMNS,
  gib,
  PARTS,
  planBody,
  planForm,
  planLine,
  planSearch,
  slices,
  sorted,
  type Column,
  type Plan,
  type PlanForm,
  type PlanSet,
} from "../../lib/plans";
import { Icon } from "../../ui/icon";
import { ErrorCard, PageHead, Skeleton, YardLine } from "../../ui/parts";
import "./plan.css";

const NUMBERS = [
  ["gpus", "GPUs per node"],
  ["nodes", "Nodes"],
  ["seq", "Sequence length"],
  ["batch", "Global batch"],
  ["tokens", "Tokens"],
] as const;
const FEW_REJECTIONS = 6;

export function PlanPage(): ReactElement {
  const search: Record<string, string> = useSearch({ from: "/app/plan" });
  const navigate = useNavigate();
  const form = planForm(search);
  const options = useQuery(planOptionsQuery());
  const read = planBody(form);
  const reply = useQuery({ ...planQuery("body" in read ? read.body : null), placeholderData: (before) => before });
  const change = (part: Partial<PlanForm>): void =>
    void navigate({ to: "/app/plan", search: planSearch({ ...form, ...part }), replace: true, resetScroll: false });
  return (
    <>
      <PageHead title="Plan" facts={<span>what fits, how fast it is and what it costs, before anything runs</span>}>
        <Link className="btn" to="/app/submit" search={{}}>
          <Icon name="plus" />
          Submit a job
        </Link>
      </PageHead>
      <div className="page-body plan-page">
        {options.error !== null && (
          <ErrorCard title="The models could not be listed" error={options.error} retry={() => void options.refetch()} />
        )}
        {options.data !== undefined && <Request form={form} options={options.data} change={change} />}
        {"fault" in read ? (
          <div className="note-box red" role="alert">
            {read.fault}
          </div>
        ) : (
          <Answer
            error={reply.error}
            reply={reply.error === null ? reply.data : undefined}
            again={() => void reply.refetch()}
          />
        )}
        <YardLine line={planLine(form)} />
      </div>
    </>
  );
}

function Request(props: {
  form: PlanForm;
  options: PlanOptions;
  change: (part: Partial<PlanForm>) => void;
}): ReactElement {
  const { form, options, change } = props;
  const [more, setMore] = useState(() => CHOICES.some((name) => form[name] !== "") || form.packing !== "");
  return (
    <form className="card plan-form" onSubmit={(event) => event.preventDefault()}>
      <Choice label="Model" value={form.model} onChange={(model) => change({ model })}>
        {options.models.map((one) => (
          <option key={one.name} value={one.name}>
            {one.name} ({billions(one.params)})
          </option>
        ))}
      </Choice>
      <Choice label="GPU" value={form.gpu} onChange={(gpu) => change({ gpu })}>
        {options.gpus.map((one) => (
          <option key={one.name} value={one.name}>
            {one.name} ({gib(one.memory_bytes)})
          </option>
        ))}
      </Choice>
      {NUMBERS.map(([field, word]) => (
        <NumberField key={field} label={word} value={form[field]} onChange={(value) => change({ [field]: value })} />
      ))}
      <button type="button" className="btn plan-more" aria-expanded={more} onClick={() => setMore(!more)}>
        <Icon name={more ? "up" : "down"} />
        Fix choices
      </button>
      {more && (
        <div className="plan-choices">
          {CHOICES.map((name) => (
            <Choice key={name} label={capital(name)} value={form[name]} onChange={(value) => change({ [name]: value })}>
              <option value="">any</option>
              {(options.choices[name] ?? []).map((one) => (
                <option key={one}>{one}</option>
              ))}
            </Choice>
          ))}
          <label className="row">
            <input
              type="checkbox"
              checked={form.packing !== ""}
              onChange={(event) => change({ packing: event.target.checked ? "1" : "" })}
            />
            Rows packed into sequences
          </label>
        </div>
      )}
    </form>
  );
}

/** A number; while the field is empty, the last value stays in force. */
function NumberField(props: { label: string; value: string; onChange: (value: string) => void }): ReactElement {
  const [draft, setDraft] = useState<string | null>(null);
  const write = (text: string): void => {
    setDraft(text);
    if (text.trim() !== "") {
      props.onChange(text.trim());
    }
  };
  return (
    <label>
      <span>{props.label}</span>
      <input
        className="field"
        inputMode="numeric"
        value={draft ?? props.value}
        onChange={(event) => write(event.target.value)}
        onBlur={() => setDraft(null)}
      />
    </label>
  );
}

function Choice(props: {
  label: string;
  value: string;
  onChange: (value: string) => void;
  children: React.ReactNode;
}): ReactElement {
  return (
    <label>
      <span>{props.label}</span>
      <select
        className="field"
        aria-label={props.label}
        value={props.value}
        onChange={(event) => props.onChange(event.target.value)}
      >
        {props.children}
      </select>
    </label>
  );
}

function Answer(props: { error: unknown; reply: PlanReply | undefined; again: () => void }): ReactElement {
  const { error, reply, again } = props;
  if (error !== null) {
    return <ErrorCard title="This cannot be planned" error={error} retry={again} />;
  }
  if (reply === undefined) {
    return <Skeleton />;
  }
  const { plans: found } = reply;
  return (
    <>
      <dl className="card plan-answers">
        {Object.entries(found.answers).map(([question, answer]) => (
          <div key={question}>
            <dt>{capital(question)}</dt>
            <dd>{answer}</dd>
          </div>
        ))}
      </dl>
      {found.plans.length > 0 && <Table found={found} tokens={reply.tokens} />}
      <Rejected found={found} />
      <p className="muted plan-notes">
        {capital(reply.note)}. MFU: {reply.mfu_convention}. On this server so far: {reply.so_far}.
      </p>
    </>
  );
}

function Table({ found, tokens }: { found: PlanSet; tokens: number }): ReactElement {
  const [order, setOrder] = useState<{ column: Column; down: boolean }>({ column: "rank", down: false });
  const rows = sorted(found.plans, order.column, order.down);
  const sortBy = (column: Column): void =>
    setOrder((before) => ({ column, down: before.column === column ? !before.down : false }));
  return (
    <section className="card plan-table" aria-label="Plans">
      <ul className="plan-legend" aria-label="Parts of memory">
        {PARTS.map((part) => (
          <li key={part}>
            <i className={`plan-${part}`} />
            {part}
          </li>
        ))}
        <li className="muted">the bar is one {found.gpu}</li>
      </ul>
      <div className="plan-scroll">
        <table className="plain">
          <thead>
            <tr>
              {(Object.keys(COLUMNS) as Column[]).map((column) => (
                <th
                  key={column}
                  className={column === "summary" ? undefined : "num"}
                  aria-sort={order.column !== column ? "none" : order.down ? "descending" : "ascending"}
                >
                  <button type="button" className="plan-sort" onClick={() => sortBy(column)}>
                    {COLUMNS[column].word}
                    {order.column === column && <Icon name={order.down ? "down" : "up"} />}
                  </button>
                </th>
              ))}
              <th>Memory</th>
            </tr>
          </thead>
          <tbody>
            {rows.map(({ plan, rank }) => (
              <Row key={rank} plan={plan} rank={rank} found={found} tokens={tokens} />
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Row(props: { plan: Plan; rank: number; found: PlanSet; tokens: number }): ReactElement {
  const { plan, rank, found, tokens } = props;
  const wall = duration((tokens / plan.tokens_per_second) * 1000);
  return (
    <tr>
      <td className="num">{rank}</td>
      <td>{plan.summary}</td>
      <td className="num" title="micro-batch × accumulation">
        {plan.setup.micro_batch} × {plan.setup.accumulation}
      </td>
      <td className="num">{gib(plan.memory_bytes.total ?? 0)}</td>
      <td className="num">{short(plan.step_seconds.total)} s</td>
      <td className="num">{grouped(plan.tokens_per_second)}</td>
      <td className="num">{plan.mfu.toFixed(2)}</td>
      <td className="num" title={`takes ${wall}`}>
        {short(plan.gpu_hours)}
      </td>
      <td className="num">{plan.price === null ? "—" : `$${plan.price.toFixed(2)}`}</td>
      <td className="plan-bar-cell">
        <Bar plan={plan} bytes={found.gpu_memory_bytes} />
      </td>
    </tr>
  );
}

function Bar({ plan, bytes }: { plan: Plan; bytes: number }): ReactElement {
  const parts = slices(plan, bytes);
  const words = parts.map((one) => `${one.part} ${gib(one.bytes)}`).join(", ");
  return (
    <div className="plan-bar" role="img" aria-label={`Peak memory: ${words}`} title={words}>
      {parts.map((one) => (
        <span key={one.part} className={`plan-${one.part}`} style={{ width: `${Math.min(100, one.share * 100)}%` }} />
      ))}
    </div>
  );
}

function Rejected({ found }: { found: PlanSet }): ReactElement | null {
  const [all, setAll] = useState(false);
  const nearest = [...found.rejected].sort((one, other) => one.needed_bytes - other.needed_bytes);
  if (nearest.length === 0) {
    return null;
  }
  const shown = all ? nearest : nearest.slice(0, FEW_REJECTIONS);
  return (
    <section className="card">
      <div className="card-head">
        <h2>Rejected: {nearest.length}</h2>
      </div>
      <ul className="plan-rejected">
        {shown.map((one, at) => (
          <li key={at}>
            <b>{one.summary}</b>
            <span className="muted">{one.reason}</span>
          </li>
        ))}
      </ul>
      {nearest.length > FEW_REJECTIONS && (
        <button type="button" className="btn small plan-all" onClick={() => setAll(!all)}>
          {all ? "Show fewer" : `Show all ${nearest.length}`}
        </button>
      )}
    </section>
  );
}

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);
const billions = (params: number): string => (params >= 1e9 ? `${short(params / 1e9)}B` : `${short(params / 1e6)}M`);
