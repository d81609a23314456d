/** The box in which a note is written or changed; pictures go among the run's artifacts. */
import { useQueryClient } from "@tanstack/react-query";
import { useState, type ReactElement } from "react";

import { addNote, editNote, type LogEntry } from "../../api/logbook";
import { putFile } from "../../api/artifacts";
import { yard } from "../../lib/yard-line";
import { Icon } from "../../ui/icon";
import { YardLine } from "../../ui/parts";
import "./logbook.css";
import { complain } from "../../ui/toast";

interface Props {
  run: string | null;
  artifactUri?: string | undefined;
  /** the note to change; none for a new one */
  note?: LogEntry;
  onDone?: () => void;
}

/** A name that is safe in a path. */
const safe = (name: string): string => name.replace(/[^\w.-]+/g, "-").slice(-80);

export function NoteBox({ run, artifactUri, note, onDone }: Props): ReactElement {
  const [text, setText] = useState(note?.detail ?? "");
  const [files, setFiles] = useState<File[]>([]);
  const [busy, setBusy] = useState(false);
  const client = useQueryClient();
  const save = async (): Promise<void> => {
    setBusy(true);
    try {
      const pictures = [...(note?.pictures ?? [])];
      for (const file of files) {
        const path = `notes/${Date.now()}-${safe(file.name)}`;
        await putFile(artifactUri ?? "", path, file);
        pictures.push(path);
      }
      await (note === undefined ? addNote(run, { text, pictures }) : editNote(run, note.id, { text, pictures }));
      setText("");
      setFiles([]);
      await client.invalidateQueries({ queryKey: ["logbook"] });
      onDone?.();
    } catch (cause) {
      complain("The note was not saved", cause);
    } finally {
      setBusy(false);
    }
  };
  return (
    <section className="card" aria-label={note === undefined ? "Write a note" : "Edit the note"} style={{ padding: 12, display: "grid", gap: 8 }}>
      <textarea
        className="field"
        rows={3}
        aria-label="Note"
        placeholder="Write a note: Markdown, @name tells a member of the team"
        value={text}
        onChange={(event) => setText(event.target.value)}
      />
      <div className="row wrap">
        <button type="button" className="btn primary" disabled={busy || text.trim() === ""} onClick={() => void save()}>
          {note === undefined ? "Add note" : "Save"}
        </button>
        {note !== undefined && (
          <button type="button" className="btn" onClick={onDone}>
            Cancel
          </button>
        )}
        {artifactUri !== undefined && (
          <label className="btn note-pictures">
            <Icon name="plus" />
            {files.length === 0 ? "Pictures" : files.map((file) => file.name).join(", ")}
            <input
              className="sr-only"
              type="file"
              accept="image/png,image/jpeg,image/gif,image/webp"
              multiple
              aria-label="Pictures"
              onChange={(event) => setFiles([...(event.target.files ?? [])])}
            />
          </label>
        )}
        <span className="grow" />
        {note === undefined && text.trim() !== "" && <YardLine line={yard.logbookNote(run, text.length > 60 ? `${text.slice(0, 60)}…` : text)} />}
      </div>
    </section>
  );
}
