/** Who may use which priority class. */
import type { ReactElement } from "react";

import { PRIORITIES } from "../../lib/submit-form";
import { Choice } from "./parts";

type Classes = Record<string, string>;
const ROLES = [
  ["", "as usual"],
  ["member", "members"],
  ["maintainer", "maintainers"],
  ["owner", "owners"],
  ["admin", "admins"],
] as const;

/** The flags that make one set of rules of another. */
export function classFlags(before: Classes, after: Classes): string[] {
  return PRIORITIES.filter((name) => (before[name] ?? "") !== (after[name] ?? "")).flatMap((name) => ["--class", `${name}=${after[name] ?? "default"}`]);
}

export function ClassFields({ classes, onChange }: { classes: Classes; onChange: (classes: Classes) => void }): ReactElement {
  const set = (name: string, role: string): void =>
    onChange(Object.fromEntries([...Object.entries(classes).filter(([one]) => one !== name), ...(role === "" ? [] : [[name, role]])]) as Classes);
  return (
    <fieldset className="settings-group">
      <legend>Who may use a priority</legend>
      <div className="settings-grid">
        {PRIORITIES.map((name) => (
          <Choice key={name} label={name} value={classes[name] ?? ""} options={ROLES} onChange={(role) => set(name, role)} />
        ))}
      </div>
    </fieldset>
  );
}
