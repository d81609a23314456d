/** A note in Markdown, edited in place. */
import { useState, type ReactElement } from "react";

import { Icon } from "../../ui/icon";
import { YardLine } from "../../ui/parts";
import { complain } from "../../ui/toast";
import { Markdown } from "./markdown";

interface Props {
  text: string;
  title?: string;
  onSave: (text: string) => Promise<unknown>;
  /** the command that does the same */
  line?: (text: string) => string;
}

export function Note({ text, title = "Notes", onSave, line }: Props): ReactElement {
  const [draft, setDraft] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const save = async (): Promise<void> => {
    setBusy(true);
    try {
      await onSave(draft ?? "");
      setDraft(null);
    } catch (cause) {
      complain("The note was not saved", cause);
    } finally {
      setBusy(false);
    }
  };
  return (
    <section className="card" aria-label={title}>
      <div className="card-head">
        <h2 className="grow">{title}</h2>
        {draft === null && (
          <button type="button" className="btn quiet small" onClick={() => setDraft(text)}>
            <Icon name="edit" />
            {text === "" ? "Write" : "Edit"}
          </button>
        )}
      </div>
      <div style={{ padding: 12, display: "grid", gap: 8 }}>
        {draft === null ? (
          text === "" ? (
            <span className="faint">No notes yet. Markdown is supported.</span>
          ) : (
            <Markdown text={text} />
          )
        ) : (
          <>
            <textarea className="field" rows={8} aria-label={title} value={draft} onChange={(event) => setDraft(event.target.value)} />
            {line !== undefined && <YardLine line={line(draft.length > 60 ? `${draft.slice(0, 60)}…` : draft)} />}
            <div className="row">
              <button type="button" className="btn primary" disabled={busy} onClick={() => void save()}>
                Save
              </button>
              <button type="button" className="btn" onClick={() => setDraft(null)}>
                Cancel
              </button>
            </div>
          </>
        )}
      </div>
    </section>
  );
}
