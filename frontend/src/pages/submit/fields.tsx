/** The fields of a submission, the few that everyone needs first. */
import { useId, type ReactElement, type ReactNode } from "react";

import { CodeFolder } from "./code";
import { KINDS, LAUNCHERS, PRIORITIES, STYLES, type Form, type Kind } from "../../lib/submit-form";

interface Props {
  form: Form;
  faults: Partial<Record<keyof Form, string>>;
  onChange: (part: Partial<Form>) => void;
  queues: readonly string[];
  experiments: readonly string[];
  gpuTypes: readonly string[];
}

/** Examples of commands. */
const COMMANDS = { command: "python train.py --lr 3e-4", app: "tensorboard --logdir /shared/logs --host 127.0.0.1 --port {port} --path_prefix {path}" };

type TextKey = { [Key in keyof Form]: Form[Key] extends string ? Key : never }[keyof Form];
type FlagKey = { [Key in keyof Form]: Form[Key] extends boolean ? Key : never }[keyof Form];

export function Fields(props: Props): ReactElement {
  const { form, faults, onChange } = props;
  const text = (key: TextKey, label: string, more: { hint?: string; options?: readonly string[]; wide?: boolean; area?: number; decimal?: boolean } = {}): ReactElement => (
    <Text key={key} label={label} value={form[key]} fault={faults[key]} onChange={(value) => onChange({ [key]: value })} {...more} />
  );
  const flag = (key: FlagKey, label: string): ReactElement => (
    <label className="row submit-flag">
      <input type="checkbox" checked={form[key]} onChange={(event) => onChange({ [key]: event.target.checked })} />
      {label}
    </label>
  );
  return (
    <div className="stack">
      <Group title="Code and command">
        <Choice label="Kind" value={form.kind} options={KINDS} onChange={(kind) => onChange({ kind: kind as Kind })} />
        {form.kind !== "notebook" && (
          <>
            {text("command", "Command", { area: 3, wide: true, hint: COMMANDS[form.kind] })}
            <CodeFolder form={form} onChange={onChange} />
            {text("git", "Or a git repository", { hint: "https://host/team/code.git" })}
            {text("gitRef", "Branch, tag or commit", { hint: "the default branch" })}
          </>
        )}
        {form.kind === "notebook" && text("python", "Python that has JupyterLab", { hint: "jupyter-lab on the node's PATH" })}
        {form.kind !== "command" && text("idle", "Stop when unused for", { hint: "2h; 0 for never" })}
        {text("name", form.kind === "notebook" ? "Name, also of its lasting folder" : "Name", { hint: form.kind === "notebook" ? "notebook" : "Auto-generated" })}
        {text("experiment", "Experiment of its run", { hint: "Default", options: props.experiments })}
      </Group>
      <Group title="Resources, per node">
        {text("gpus", "GPUs", { hint: "0, 1, 0.5", decimal: true })}
        {text("gpuType", "GPU type", { hint: "any", options: props.gpuTypes })}
        {text("cpus", "CPUs", { hint: "any", decimal: true })}
        {text("memory", "Memory", { hint: "any, or 64G" })}
        {text("nodes", "Nodes, all or none", { decimal: true })}
        {text("time", "Time limit", { hint: "none, or 2h30m" })}
      </Group>
      <Group title="Scheduling">
        <Choice label="Queue" value={form.queue} options={[["", "default"], ...props.queues.filter((name) => name !== "default").map((name) => [name, name] as const)]} onChange={(queue) => onChange({ queue })} />
        <Choice label="Priority" value={form.priority} options={PRIORITIES.map((word) => [word, word] as const)} onChange={(priority) => onChange({ priority })} />
        {text("retries", "Retries after a failure", { hint: "0", decimal: true })}
        {text("after", "After these jobs", { hint: "JOB, or JOB:any-end" })}
        {text("array", "Array", { hint: "0-9, or 0-9%2 for two at a time" })}
        {text("estimate", "Expected duration", { hint: "learned from past jobs" })}
        {flag("preemptible", "May be preempted, and resume later")}
        {flag("hold", "Submit on hold")}
      </Group>
      <Group title="Environment">
        {text("data", "Data sets, one NAME or NAME@v3 a line", { area: 2 })}
        {text("env", "Variables, one NAME=VALUE a line", { area: 3 })}
        {text("pip", "Packages to install, as in requirements.txt", { area: 3 })}
      </Group>
      <details className="card submit-more" open={isRare(form)}>
        <summary>More: launcher, labels, lease, grace, tags</summary>
        <div className="submit-grid">
          <Choice label="Launcher" value={form.launcher} options={LAUNCHERS.map((word) => [word, word] as const)} onChange={(launcher) => onChange({ launcher })} />
          {text("processes", "Processes on each node", { hint: "one a GPU", decimal: true })}
          {text("grace", "Time to save when stopped", { hint: "30s" })}
          {text("progress", "Progress at least every", { hint: "not watched" })}
          {text("lease", "Only on this lease", { hint: "none" })}
          {text("same", "Label its nodes must share", { hint: "rack" })}
          <Choice label="How nodes are chosen" value={form.style} options={STYLES.map((word) => [word, word === "" ? "as the queue does" : word] as const)} onChange={(style) => onChange({ style })} />
          {text("team", "Team to charge", { hint: "yours" })}
          {text("labels", "Node labels it needs, one NAME=VALUE a line", { area: 2 })}
          {text("tags", "Tags on its run, one NAME=VALUE a line", { area: 2 })}
          {flag("exclusive", "Exclusive use of its nodes")}
        </div>
      </details>
    </div>
  );
}

function isRare(form: Form): boolean {
  return form.launcher !== "plain" || [form.processes, form.grace, form.progress, form.lease, form.same, form.style, form.labels, form.tags].some((text) => text !== "") || form.exclusive;
}

function Group({ title, children }: { title: string; children: ReactNode }): ReactElement {
  return (
    <fieldset className="card submit-group">
      <legend>{title}</legend>
      <div className="submit-grid">{children}</div>
    </fieldset>
  );
}

function Text(props: {
  label: string;
  value: string;
  fault: string | undefined;
  hint?: string;
  options?: readonly string[];
  wide?: boolean;
  area?: number;
  decimal?: boolean;
  onChange: (value: string) => void;
}): ReactElement {
  const id = useId();
  const shared = {
    id,
    value: props.value,
    placeholder: props.hint,
    spellCheck: false,
    "aria-invalid": props.fault !== undefined,
    "aria-describedby": props.fault === undefined ? undefined : `${id}-fault`,
  };
  return (
    <div className={`label${props.wide === true ? " form-whole" : ""}`}>
      <label htmlFor={id}>{props.label}</label>
      {props.area === undefined ? (
        <input {...shared} className="field" inputMode={props.decimal === true ? "decimal" : "text"} list={props.options === undefined ? undefined : `${id}-list`} onChange={(event) => props.onChange(event.target.value)} />
      ) : (
        <textarea {...shared} className="field mono" rows={props.area} onChange={(event) => props.onChange(event.target.value)} />
      )}
      {props.options !== undefined && (
        <datalist id={`${id}-list`}>
          {props.options.map((option) => (
            <option key={option} value={option} />
          ))}
        </datalist>
      )}
      {props.fault !== undefined && (
        <span id={`${id}-fault`} className="tone-red">
          {props.fault}
        </span>
      )}
    </div>
  );
}

function Choice(props: { label: string; value: string; options: readonly (readonly [string, string])[]; onChange: (value: string) => void }): ReactElement {
  return (
    <label className="label">
      {props.label}
      <select className="field" value={props.value} onChange={(event) => props.onChange(event.target.value)}>
        {props.options.map(([value, word]) => (
          <option key={value} value={value}>
            {word}
          </option>
        ))}
      </select>
    </label>
  );
}
