/** What can be done to the ticked runs. Each asks once where it must, shows its command, and can be undone where that is possible. */
import { useState, type FormEvent, type ReactElement } from "react";

import { deleteRun, deleteTag, forEachRun, restoreRun, setTag, TAGS } from "../../api/runs";
import { count } from "../../lib/format";
import { few, yard } from "../../lib/yard-line";
import { Dialog } from "../../ui/menu";
import { Icon } from "../../ui/icon";
import { YardLine } from "../../ui/parts";
import { complain, toast } from "../../ui/toast";

/** Delete runs and offer to take it back. */
export async function deleteWithUndo(runs: readonly string[]): Promise<void> {
  try {
    await forEachRun(runs, deleteRun);
    toast(`Deleted ${count(runs.length, "run")}`, {
      word: "Undo",
      run: () => void restoreAll(runs),
    }, yard.remove(few(runs)));
  } catch (cause) {
    complain("Not all runs were deleted", cause);
  }
}

/** Bring deleted runs back. */
export async function restoreAll(runs: readonly string[]): Promise<void> {
  try {
    await forEachRun(runs, restoreRun);
    toast(`Restored ${count(runs.length, "run")}`, null, yard.restore(few(runs)));
  } catch (cause) {
    complain("Not all runs were restored", cause);
  }
}

/** Star runs, or take the star away. */
export async function starAll(runs: readonly string[], on: boolean): Promise<void> {
  try {
    await forEachRun(runs, (run) => (on ? setTag(run, TAGS.star, "1") : deleteTag(run, TAGS.star)));
    const line = on ? yard.tag(few(runs), TAGS.star, "1") : yard.untag(few(runs), TAGS.star);
    toast(on ? `Starred ${count(runs.length, "run")}` : `Took the star from ${count(runs.length, "run")}`, null, line);
  } catch (cause) {
    complain("The star was not changed", cause);
  }
}

interface Props {
  runs: readonly string[];
  deleted: boolean;
  onCompare: () => void;
  onClear: () => void;
}

export function BulkBar({ runs, deleted, onCompare, onClear }: Props): ReactElement {
  const [open, setOpen] = useState<"delete" | "tag" | null>(null);
  return (
    <div className="bulk" role="toolbar" aria-label="Selected runs">
      <b>{count(runs.length, "run")} selected</b>
      <button type="button" className="btn small" disabled={runs.length < 2} onClick={onCompare} title="Compare (c)">
        <Icon name="compare" />
        Compare selected
      </button>
      <button type="button" className="btn small" onClick={() => setOpen("tag")}>
        <Icon name="tag" />
        Tag
      </button>
      <button type="button" className="btn small" title={yard.tag(few(runs), TAGS.star, "1")} onClick={() => void starAll(runs, true)}>
        <Icon name="star" />
        Star
      </button>
      {deleted ? (
        <button type="button" className="btn small" title={yard.restore(few(runs))} onClick={() => void restoreAll(runs).then(onClear)}>
          <Icon name="restore" />
          Restore
        </button>
      ) : (
        <button type="button" className="btn small danger" onClick={() => setOpen("delete")}>
          <Icon name="trash" />
          Delete
        </button>
      )}
      <button type="button" className="btn quiet small" onClick={onClear}>
        Clear
      </button>
      {open === "tag" && <TagDialog runs={runs} onClose={() => setOpen(null)} />}
      {open === "delete" && (
        <DeleteDialog
          runs={runs}
          what={count(runs.length, "run")}
          onClose={() => setOpen(null)}
          onDone={() => {
            setOpen(null);
            onClear();
          }}
        />
      )}
    </div>
  );
}

/** Ask once, name the thing, show the command. */
export function DeleteDialog(props: { runs: readonly string[]; what: string; onClose: () => void; onDone: () => void }): ReactElement {
  return (
    <Dialog title={`Delete ${props.what}?`} onClose={props.onClose}>
      <p className="muted">Deleted runs can be restored until they are purged.</p>
      <YardLine line={yard.remove(few(props.runs))} />
      <div className="dialog-foot">
        <button type="button" className="btn" onClick={props.onClose}>
          Keep
        </button>
        <button type="button" className="btn danger" onClick={() => void deleteWithUndo(props.runs).then(props.onDone)}>
          Delete
        </button>
      </div>
    </Dialog>
  );
}

/** Set a tag on runs. */
export function TagDialog({ runs, onClose }: { runs: readonly string[]; onClose: () => void }): ReactElement {
  const [key, setKey] = useState("");
  const [value, setValue] = useState("");
  const submit = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    try {
      await forEachRun(runs, (run) => setTag(run, key.trim(), value));
      toast(`Tagged ${count(runs.length, "run")}`, { word: "Undo", run: () => void forEachRun(runs, (run) => deleteTag(run, key.trim())) }, yard.tag(few(runs), key.trim(), value));
      onClose();
    } catch (cause) {
      complain("Not all runs were tagged", cause);
    }
  };
  return (
    <Dialog title={`Tag ${count(runs.length, "run")}`} onClose={onClose}>
      <form className="dialog-body" style={{ padding: 0 }} onSubmit={(event) => void submit(event)}>
        <label className="label">
          Name
          <input className="field" value={key} onChange={(event) => setKey(event.target.value)} />
        </label>
        <label className="label">
          Value
          <input className="field" value={value} onChange={(event) => setValue(event.target.value)} />
        </label>
        <YardLine line={yard.tag(few(runs), key || "name", value)} />
        <div className="dialog-foot">
          <button type="submit" className="btn primary" disabled={key.trim() === ""}>
            Set the tag
          </button>
        </div>
      </form>
    </Dialog>
  );
}
