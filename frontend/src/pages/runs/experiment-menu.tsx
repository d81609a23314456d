/** Which experiments the page shows: one, several, or all. */
import { useState, type ReactElement } from "react";

import type { ExperimentSummary } from "../../api/runs";
import { grouped } from "../../lib/format";
import { matcher } from "../../lib/search";
import { MenuButton, MenuItem } from "../../ui/menu";

interface Props {
  experiments: readonly ExperimentSummary[];
  chosen: readonly string[];
  onChange: (chosen: string[]) => void;
}

export function ExperimentMenu({ experiments, chosen, onChange }: Props): ReactElement {
  const [search, setSearch] = useState("");
  const name = (id: string): string => experiments.find((one) => one.experiment_id === id)?.name ?? id;
  const first = chosen[0];
  const label = first === undefined ? "All experiments" : chosen.length === 1 ? name(first) : `${name(first)} +${chosen.length - 1}`;
  const wanted = matcher(search);
  const toggle = (id: string): void => onChange(chosen.includes(id) ? chosen.filter((one) => one !== id) : [...chosen, id]);
  return (
    <MenuButton name={`Experiments: ${label}`} label={<b className="clip" style={{ maxWidth: 220 }}>{label}</b>} width={320} quiet>
      {(close) => (
        <>
          <input className="field" style={{ width: "100%" }} type="search" placeholder="Find an experiment" aria-label="Find an experiment" value={search} onChange={(event) => setSearch(event.target.value)} />
          <MenuItem checked={chosen.length === 0} onClick={() => onChange([])}>
            All experiments
          </MenuItem>
          {experiments.filter((one) => wanted(one.name)).slice(0, 200).map((one) => (
            <div key={one.experiment_id} className="row">
              <input type="checkbox" className="tick" style={{ marginLeft: 8 }} aria-label={`Show ${one.name} too`} checked={chosen.includes(one.experiment_id)} onChange={() => toggle(one.experiment_id)} />
              <MenuItem
                onClick={() => {
                  onChange([one.experiment_id]);
                  close();
                }}
              >
                <span className="grow clip">{one.name}</span>
                <span className="faint">{grouped(one.runs)}</span>
              </MenuItem>
            </div>
          ))}
        </>
      )}
    </MenuButton>
  );
}
