/** Register a model from a run's artifacts: under a new name, or as the next version of one. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState, type FormEvent, type ReactElement } from "react";

import { Fault } from "../../api/client";
import { createModel, createVersion, modelsQuery } from "../../api/models";
import { yard } from "../../lib/yard-line";
import { Dialog } from "../../ui/menu";
import { ErrorCard, YardLine } from "../../ui/parts";
import { toast } from "../../ui/toast";

interface Props {
  run: string;
  path: string;
  onClose: () => void;
}

/** Make the model if there is none of that name, then its next version; returns the version. */
export async function registerModel(name: string, run: string, path: string): Promise<string> {
  try {
    await createModel(name);
  } catch (cause) {
    if (!(cause instanceof Fault && cause.code === "RESOURCE_ALREADY_EXISTS")) {
      throw cause;
    }
  }
  return (await createVersion(name, `runs:/${run}/${path}`, run)).model_version.version;
}

export function RegisterDialog({ run, path, onClose }: Props): ReactElement {
  const models = useQuery(modelsQuery());
  const client = useQueryClient();
  const navigate = useNavigate();
  const [name, setName] = useState("");
  const [fault, setFault] = useState<unknown>(null);
  const submit = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    try {
      const version = await registerModel(name.trim(), run, path);
      await client.invalidateQueries({ queryKey: ["models"] });
      toast(`Registered as ${name.trim()} version ${version}`, {
        word: "Open",
        run: () => void navigate({ to: "/app/models/$name", params: { name: name.trim() }, search: {} }),
      });
      onClose();
    } catch (cause) {
      setFault(cause);
    }
  };
  return (
    <Dialog title={`Register ${path}`} onClose={onClose}>
      <form className="dialog-body" style={{ padding: 0 }} onSubmit={(event) => void submit(event)}>
        {fault !== null && <ErrorCard title="The model was not registered" error={fault} />}
        <label className="label">
          Model, new or known
          <input className="field" list="model-names" value={name} onChange={(event) => setName(event.target.value)} />
        </label>
        <datalist id="model-names">
          {models.data?.map((model) => <option key={model.name} value={model.name} />)}
        </datalist>
        <YardLine line={yard.register(run, path, name || "MODEL")} />
        <div className="dialog-foot">
          <button type="submit" className="btn primary" disabled={name.trim() === ""}>
            Register
          </button>
        </div>
      </form>
    </Dialog>
  );
}
