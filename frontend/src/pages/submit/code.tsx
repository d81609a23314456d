/** Which code a job runs: a dropped folder, a git repository, or what is on the node. */
import { useRef, useState, type DragEvent, type ReactElement } from "react";

import { sendPackage } from "../../api/jobs";
import { bytes, count } from "../../lib/format";
import type { Form } from "../../lib/submit-form";
import { isCode, MAX_PACKAGE_BYTES, zip, type ZipEntry } from "../../lib/zip";
import { Icon } from "../../ui/icon";
import { ErrorCard, IconButton } from "../../ui/parts";
import { filesOf, inFolder, type Picked } from "./dropped";

interface Props {
  form: Form;
  onChange: (part: Partial<Form>) => void;
}

export function CodeFolder({ form, onChange }: Props): ReactElement {
  const input = useRef<HTMLInputElement>(null);
  const [over, setOver] = useState(false);
  const [about, setAbout] = useState("");
  const [busy, setBusy] = useState(false);
  const [fault, setFault] = useState<unknown>(null);
  const take = async (picked: Promise<Picked[]>): Promise<void> => {
    setBusy(true);
    setFault(null);
    try {
      const { entries, left } = await readAll(await picked);
      const archive = zip(entries);
      const { digest } = await sendPackage(archive);
      setAbout(`${count(entries.length, "file")}, ${bytes(archive.size)}${left > 0 ? `; ${count(left, "file")} of history, environments and caches left out` : ""}`);
      onChange({ package: digest, packageFormat: "zip" });
    } catch (cause) {
      setFault(cause);
    } finally {
      setBusy(false);
    }
  };
  const drop = (event: DragEvent): void => {
    event.preventDefault();
    setOver(false);
    void take(filesOf(event.dataTransfer));
  };
  return (
    <div className="form-whole stack" style={{ gap: 6 }}>
      <div
        className="submit-drop"
        data-over={over}
        onDragOver={(event) => {
          event.preventDefault();
          setOver(true);
        }}
        onDragLeave={() => setOver(false)}
        onDrop={drop}
      >
        <Icon name="folder" />
        <span className="grow" role="status">
          {busy ? "Packing and uploading…" : form.package === "" ? "Drop a folder of code here" : `Packaged folder ${form.package.slice(0, 12)}${about === "" ? "" : `: ${about}`}`}
        </span>
        {form.package !== "" && <IconButton icon="cross" label="Remove the folder" onClick={() => onChange({ package: "", packageFormat: "zip" })} />}
        <button type="button" className="btn small" disabled={busy} onClick={() => input.current?.click()}>
          Choose a folder
        </button>
        <input
          ref={input}
          type="file"
          hidden
          multiple
          aria-label="Folder of code"
          {...{ webkitdirectory: "" }}
          onChange={(event) => {
            const files = [...(event.target.files ?? [])];
            event.target.value = "";
            void take(Promise.resolve(files.map((file) => ({ path: inFolder(file.webkitRelativePath || file.name), file }))));
          }}
        />
      </div>
      {fault !== null && <ErrorCard title="The folder was not taken" error={fault} />}
    </div>
  );
}

async function readAll(picked: readonly Picked[]): Promise<{ entries: ZipEntry[]; left: number }> {
  const wanted = picked.filter((one) => isCode(one.path));
  const size = wanted.reduce((sum, one) => sum + one.file.size, 0);
  if (wanted.length === 0) {
    throw new Error("There is no file in it.");
  }
  if (wanted.length > 60_000 || size > MAX_PACKAGE_BYTES) {
    throw new Error(`It has ${count(wanted.length, "file")} and ${bytes(size)}; a package may have ${bytes(MAX_PACKAGE_BYTES)}. Leave data out: keep it as a data set, or on storage that the nodes share.`);
  }
  const entries: ZipEntry[] = [];
  for (const { path, file } of wanted) {
    entries.push({ path, data: new Uint8Array(await file.arrayBuffer()) });
  }
  return { entries, left: picked.length - wanted.length };
}
