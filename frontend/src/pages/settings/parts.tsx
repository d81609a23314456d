/** What the parts of the settings share: doing something and saying so, fields, questions before something ends. */
import { useQueryClient } from "@tanstack/react-query";
import { useId, useState, type FormEvent, type ReactElement, type ReactNode } from "react";

import { Dialog } from "../../ui/menu";
import { ErrorCard, YardLine } from "../../ui/parts";
import { toast } from "../../ui/toast";

/** Do something, say what was done with the command that does the same, and read the settings anew. */
export function useDo(): (work: Promise<unknown>, done: string, line?: string) => Promise<void> {
  const client = useQueryClient();
  return async (work, done, line) => {
    await work;
    toast(done, null, line ?? null);
    await Promise.all([client.invalidateQueries({ queryKey: ["settings"] }), client.invalidateQueries({ queryKey: ["queues"] })]);
  };
}

/** A form in a dialog: it stays open with the fault where the server refuses. */
export function FormDialog(props: {
  title: string;
  verb: string;
  line?: string | undefined;
  danger?: boolean;
  wide?: boolean;
  disabled?: boolean;
  onClose: () => void;
  onSubmit: () => Promise<void>;
  children: ReactNode;
}): ReactElement {
  const [fault, setFault] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const submit = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setFault(null);
    try {
      await props.onSubmit();
    } catch (cause) {
      setFault(cause);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog title={props.title} onClose={props.onClose} wide={props.wide ?? false}>
      <form className="stack" onSubmit={(event) => void submit(event)}>
        {props.children}
        {fault !== null && <ErrorCard title="The change failed" error={fault} />}
        {props.line !== undefined && <YardLine line={props.line} />}
        <div className="row" style={{ justifyContent: "flex-end" }}>
          <button type="button" className="btn" onClick={props.onClose}>
            Cancel
          </button>
          <button type="submit" className={`btn ${props.danger === true ? "danger" : "primary"}`} disabled={busy || props.disabled === true}>
            {props.verb}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

/** A text with its name above it, and what is wrong with it below. */
export function Text(props: {
  label: string;
  value: string;
  onChange: (value: string) => void;
  hint?: string;
  help?: string;
  fault?: string | undefined;
  options?: readonly string[];
}): ReactElement {
  const id = useId();
  const about = props.fault ?? props.help;
  return (
    <div className="label">
      <label htmlFor={id}>{props.label}</label>
      <input
        id={id}
        className="field"
        value={props.value}
        placeholder={props.hint}
        spellCheck={false}
        autoComplete="off"
        list={props.options === undefined ? undefined : `${id}-list`}
        aria-invalid={props.fault !== undefined}
        aria-describedby={about === undefined ? undefined : `${id}-about`}
        onChange={(event) => props.onChange(event.target.value)}
      />
      {props.options !== undefined && (
        <datalist id={`${id}-list`}>
          {props.options.map((option) => (
            <option key={option} value={option} />
          ))}
        </datalist>
      )}
      {about !== undefined && (
        <span id={`${id}-about`} className={props.fault === undefined ? "faint" : "tone-red"}>
          {about}
        </span>
      )}
    </div>
  );
}

/** One of a few values. */
export function Choice<T extends string>(props: {
  label: string;
  value: T;
  options: readonly (readonly [T, string])[];
  onChange: (value: T) => void;
  hidden?: boolean;
  disabled?: boolean;
}): ReactElement {
  const select = (
    <select
      className="field"
      aria-label={props.label}
      value={props.value}
      disabled={props.disabled}
      onChange={(event) => props.onChange(event.target.value as T)}
    >
      {props.options.map(([value, word]) => (
        <option key={value} value={value}>
          {word}
        </option>
      ))}
    </select>
  );
  return props.hidden === true ? (
    select
  ) : (
    <div className="label">
      <span>{props.label}</span>
      {select}
    </div>
  );
}

/** A part of the settings: a card with a name, a sentence and its actions. */
export function Part(props: { title: string; about: string; actions?: ReactNode; children: ReactNode }): ReactElement {
  return (
    <section className="card" aria-label={props.title}>
      <div className="card-head settings-head">
        <h2>{props.title}</h2>
        <span className="faint grow">{props.about}</span>
        {props.actions}
      </div>
      {props.children}
    </section>
  );
}
