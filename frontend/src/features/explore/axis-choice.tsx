/** Choosing what an axis shows. */
import type { ReactElement } from "react";

import { matcher } from "../../lib/search";
import { MenuButton, MenuItem } from "../../ui/menu";
import { useState } from "react";

interface Names {
  metrics: readonly string[];
  params: readonly string[];
}

export function AxisChoice(props: Names & { label: string; value: string; onChange: (id: string) => void }): ReactElement {
  return (
    <label className="row muted">
      {props.label}
      <select className="field" value={props.value} onChange={(event) => props.onChange(event.target.value)}>
        <optgroup label="Metrics">
          {props.metrics.map((name) => (
            <option key={name} value={`metric:${name}`}>
              {name}
            </option>
          ))}
        </optgroup>
        <optgroup label="Min and max">
          {props.metrics
            .filter((name) => !name.startsWith("system/"))
            .flatMap((name) =>
              ["min", "max"].map((stat) => (
                <option key={name + stat} value={`metric:${name}@${stat}`}>
                  {name} {stat}
                </option>
              )),
            )}
        </optgroup>
        <optgroup label="Parameters">
          {props.params.map((name) => (
            <option key={name} value={`param:${name}`}>
              {name}
            </option>
          ))}
        </optgroup>
      </select>
    </label>
  );
}

export function ManyAxes(props: Names & { chosen: readonly string[]; onChange: (ids: string[]) => void }): ReactElement {
  const [search, setSearch] = useState("");
  const wanted = matcher(search);
  const all = [...props.params.map((name) => `param:${name}`), ...props.metrics.map((name) => `metric:${name}`)];
  const toggle = (id: string): void => props.onChange(props.chosen.includes(id) ? props.chosen.filter((one) => one !== id) : [...props.chosen, id]);
  return (
    <MenuButton name="Axes" label={`${props.chosen.length} axes`} icon="sliders" width={260}>
      {() => (
        <>
          <input className="field" style={{ width: "100%" }} type="search" aria-label="Find an axis" placeholder="Find an axis" value={search} onChange={(event) => setSearch(event.target.value)} />
          {all.filter(wanted).slice(0, 120).map((id) => (
            <MenuItem key={id} checked={props.chosen.includes(id)} onClick={() => toggle(id)}>
              <span className="clip">{id.slice(id.indexOf(":") + 1)}</span>
            </MenuItem>
          ))}
        </>
      )}
    </MenuButton>
  );
}
