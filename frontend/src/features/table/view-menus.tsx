/** Group by, and saved views: both change what the address says, nothing else. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, type FormEvent, type ReactElement } from "react";

import { deleteExperimentTag, experimentQuery, keys, setExperimentTag, type KeyNames } from "../../api/runs";
import { parseQuery, formatQuery } from "../../lib/address";
import { columnTitle, parseColumn } from "../../lib/columns";
import { readView, writeView, type View } from "../../lib/view";
import { matcher } from "../../lib/search";
import { yard } from "../../lib/yard-line";
import { MenuButton, MenuItem } from "../../ui/menu";
import { IconButton, YardLine } from "../../ui/parts";
import { complain, toast } from "../../ui/toast";

/** Choose what rows are grouped by. */
export function GroupMenu({ names, group, onChange }: { names: KeyNames; group: readonly string[]; onChange: (group: string[]) => void }): ReactElement {
  const [search, setSearch] = useState("");
  const all = [
    "attribute:status",
    "attribute:user",
    "attribute:experiment",
    ...names.params.map((key) => `param:${key}`),
    ...names.tags.filter((key) => !key.startsWith("mlflow.")).map((key) => `tag:${key}`),
  ];
  const wanted = matcher(search);
  const title = (id: string): string => {
    const column = parseColumn(id);
    return column === null ? id : columnTitle(column);
  };
  const toggle = (id: string): void => onChange(group.includes(id) ? group.filter((one) => one !== id) : [...group, id]);
  return (
    <MenuButton name="Group by" icon="group" label={group.length === 0 ? "Group" : `Group: ${group.map(title).join(", ")}`} width={260}>
      {() => (
        <>
          <input className="field" style={{ width: "100%" }} type="search" placeholder="Group by…" aria-label="Group by" value={search} onChange={(event) => setSearch(event.target.value)} />
          {group.length > 0 && (
            <MenuItem icon="cross" onClick={() => onChange([])}>
              Clear groups
            </MenuItem>
          )}
          {all.filter((id) => wanted(title(id))).slice(0, 80).map((id) => (
            <MenuItem key={id} checked={group.includes(id)} onClick={() => toggle(id)}>
              <span className="grow clip">{title(id)}</span>
              <span className="faint">{id.split(":")[0] === "param" ? "parameter" : id.split(":")[0] === "tag" ? "tag" : ""}</span>
            </MenuItem>
          ))}
        </>
      )}
    </MenuButton>
  );
}

const PREFIX = "yard.view.";

/** A view as it is kept: without what belongs to one sitting. */
function textOf(view: View): string {
  return formatQuery(writeView({ ...view, experiments: [], ticked: [], hidden: [] })) || "?";
}

/** Views kept with the experiment, for the whole team: the columns alone, or all of it. */
export function SavedMenu({ view, experiment, onApply }: { view: View; experiment: string | undefined; onApply: (change: Partial<View>) => void }): ReactElement {
  const client = useQueryClient();
  const { data } = useQuery({ ...experimentQuery(experiment ?? ""), enabled: experiment !== undefined });
  const [name, setName] = useState("");
  const saved = (data?.tags ?? []).filter((tag) => tag.key.startsWith(PREFIX)).map((tag) => ({ name: tag.key.slice(PREFIX.length), text: tag.value }));
  const refresh = (): void => void client.invalidateQueries({ queryKey: keys.experiment(experiment ?? "") });
  const keep = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    const wanted = name.trim();
    if (experiment === undefined || wanted === "") {
      return;
    }
    try {
      await setExperimentTag(experiment, PREFIX + wanted, textOf(view));
      toast(`Saved as “${wanted}” for the team`);
      setName("");
      refresh();
    } catch (cause) {
      complain("The view was not saved", cause);
    }
  };
  const drop = (one: string): void => {
    deleteExperimentTag(experiment ?? "", PREFIX + one).then(
      () => {
        refresh();
        toast(`Removed “${one}”`, null, yard.editExperiment(data?.name ?? experiment ?? "", "--untag", PREFIX + one));
      },
      (cause: unknown) => complain("The view was not removed", cause),
    );
  };
  return (
    <MenuButton name="Saved views" label="Saved" icon="save" width={300}>
      {(close) =>
        experiment === undefined ? (
          <p className="muted" style={{ padding: 8 }}>
            Views are saved with an experiment: choose one first. The address of this page holds the view as well.
          </p>
        ) : (
          <>
            <form className="row" style={{ padding: 4 }} onSubmit={(event) => void keep(event)}>
              <input className="field grow" aria-label="Name of the view" placeholder="Name of the view" value={name} onChange={(event) => setName(event.target.value)} />
              <button type="submit" className="btn" disabled={name.trim() === ""}>
                Save view
              </button>
            </form>
            {name.trim() !== "" && <YardLine line={yard.editExperiment(data?.name ?? experiment, "--tag", `${PREFIX}${name.trim()}=${textOf(view)}`)} />}
            {saved.length === 0 && <p className="faint" style={{ padding: 8 }}>No saved views yet.</p>}
            {saved.map((one) => {
              const kept = readView(parseQuery(one.text));
              return (
                <div key={one.name} className="menu-item" style={{ cursor: "default" }}>
                  <b className="grow clip">{one.name}</b>
                  <button
                    type="button"
                    className="btn quiet small"
                    onClick={() => {
                      onApply({ ...kept, experiments: view.experiments });
                      close();
                    }}
                  >
                    all
                  </button>
                  <button
                    type="button"
                    className="btn quiet small"
                    onClick={() => {
                      onApply({ columns: kept.columns });
                      close();
                    }}
                  >
                    columns
                  </button>
                  <IconButton icon="trash" label={`Remove ${one.name} (${yard.editExperiment(data?.name ?? experiment, "--untag", PREFIX + one.name)})`} onClick={() => drop(one.name)} />
                </div>
              );
            })}
          </>
        )
      }
    </MenuButton>
  );
}
