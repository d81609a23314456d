/** Which columns the table has: search, tick, order; for metrics last, min, max, or the step of the last value. */
import { useMemo, useState, type ReactElement } from "react";

import type { KeyNames } from "../../api/runs";
import { ATTRIBUTES, columnId, columnTitle, parseColumn, type Column } from "../../lib/columns";
import { matcher } from "../../lib/search";
import { Icon } from "../../ui/icon";
import { MenuButton } from "../../ui/menu";
import { IconButton } from "../../ui/parts";

interface Props {
  names: KeyNames;
  columns: readonly string[];
  onChange: (columns: string[] | null) => void;
}

const MOST = 150;

function candidates(names: KeyNames): { head: string; columns: Column[] }[] {
  return [
    { head: "About the run", columns: Object.keys(ATTRIBUTES).map((key): Column => ({ kind: "attribute", key })) },
    {
      head: "Metrics",
      columns: names.metrics.flatMap((key): Column[] => [
        { kind: "metric", key, stat: "last" },
        { kind: "metric", key, stat: "min" },
        { kind: "metric", key, stat: "max" },
        { kind: "metric", key, stat: "step" },
      ]),
    },
    { head: "Curves", columns: names.metrics.map((key): Column => ({ kind: "spark", key })) },
    { head: "Parameters", columns: names.params.map((key): Column => ({ kind: "param", key })) },
    { head: "Tags", columns: names.tags.filter((key) => !/^mlflow\.(runName|user)$/.test(key)).map((key): Column => ({ kind: "tag", key })) },
  ];
}

export function ColumnPicker({ names, columns, onChange }: Props): ReactElement {
  return (
    <MenuButton name="Columns" label="Columns" icon="columns" width={330}>
      {() => <Picker names={names} columns={columns} onChange={onChange} />}
    </MenuButton>
  );
}

function Picker({ names, columns, onChange }: Props): ReactElement {
  const [search, setSearch] = useState("");
  const groups = useMemo(() => candidates(names), [names]);
  const wanted = useMemo(() => matcher(search), [search]);
  const on = new Set(columns);
  const toggle = (id: string): void => onChange(on.has(id) ? columns.filter((one) => one !== id) : [...columns, id]);
  const setAll = (ids: string[], show: boolean): void =>
    onChange(show ? [...columns, ...ids.filter((id) => !on.has(id))].slice(0, 290) : columns.filter((id) => !ids.includes(id)));
  return (
    <div>
      <div className="row" style={{ padding: 4 }}>
        <input className="field grow" type="search" aria-label="Find a column" placeholder="Find a column" value={search} onChange={(event) => setSearch(event.target.value)} />
        <button type="button" className="btn small" onClick={() => onChange(null)}>
          Reset
        </button>
      </div>
      {search === "" && (
        <>
          <div className="menu-head">Shown, in order</div>
          <Shown columns={columns} onChange={onChange} />
        </>
      )}
      {groups.map(({ head, columns: all }) => {
        const found = all.filter((column) => wanted(columnTitle(column)));
        const ids = found.map(columnId);
        return found.length === 0 ? null : (
          <div key={head}>
            <div className="menu-head row">
              <span className="grow">{head}</span>
              {head !== "Metrics" && head !== "Curves" && (
                <button type="button" className="btn quiet small" onClick={() => setAll(ids, !ids.every((id) => on.has(id)))}>
                  {ids.every((id) => on.has(id)) ? "none" : "all"}
                </button>
              )}
            </div>
            {head === "Metrics" ? (
              <Metrics columns={found} on={on} toggle={toggle} />
            ) : (
              found.slice(0, MOST).map((column) => <Choice key={columnId(column)} column={column} on={on.has(columnId(column))} toggle={toggle} />)
            )}
            {found.length > MOST && <div className="menu-head">and {found.length - MOST} more: search for them</div>}
          </div>
        );
      })}
    </div>
  );
}

function Choice({ column, on, toggle }: { column: Column; on: boolean; toggle: (id: string) => void }): ReactElement {
  return (
    <button type="button" role="menuitemcheckbox" aria-checked={on} className="menu-item" onClick={() => toggle(columnId(column))}>
      <span style={{ width: 16, display: "inline-flex" }}>{on && <Icon name="tick" />}</span>
      <span className="clip">{columnTitle(column)}</span>
    </button>
  );
}

function Metrics({ columns, on, toggle }: { columns: readonly Column[]; on: ReadonlySet<string>; toggle: (id: string) => void }): ReactElement {
  const keys = [...new Set(columns.map((column) => column.key))].slice(0, MOST);
  return (
    <>
      {keys.map((key) => (
        <div key={key} className="menu-item" style={{ cursor: "default" }}>
          <span className="grow clip" title={key}>
            {key}
          </span>
          {(["last", "min", "max", "step"] as const).map((stat) => {
            const id = columnId({ kind: "metric", key, stat });
            return (
              <button key={stat} type="button" className="btn quiet small" aria-pressed={on.has(id)} onClick={() => toggle(id)}>
                {stat}
              </button>
            );
          })}
        </div>
      ))}
    </>
  );
}

function Shown({ columns, onChange }: Pick<Props, "columns" | "onChange">): ReactElement {
  const move = (at: number, by: number): void => {
    const next = [...columns];
    const [one] = next.splice(at, 1);
    if (one !== undefined) {
      next.splice(Math.max(0, at + by), 0, one);
      onChange(next);
    }
  };
  return (
    <div style={{ maxHeight: 200, overflow: "auto" }}>
      {columns.map((id, at) => {
        const column = parseColumn(id);
        return column === null ? null : (
          <div key={id} className="menu-item" style={{ cursor: "default" }}>
            <span className="grow clip">
              {columnTitle(column)}
            </span>
            <IconButton icon="up" label={`Move ${columnTitle(column)} forward`} disabled={at === 0} onClick={() => move(at, -1)} />
            <IconButton icon="down" label={`Move ${columnTitle(column)} back`} disabled={at === columns.length - 1} onClick={() => move(at, 1)} />
            <IconButton icon="cross" label={`Remove ${columnTitle(column)}`} onClick={() => onChange(columns.filter((one) => one !== id))} />
          </div>
        );
      })}
    </div>
  );
}
