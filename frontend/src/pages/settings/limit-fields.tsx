/** Fields for limits: a number, a time or an amount of memory, empty for none. */
import { useState, type ReactElement } from "react";

import { limitText, readLimit, type LimitKind } from "../../lib/limits";
import { Text } from "./parts";

export interface LimitField {
  key: string;
  label: string;
  kind: LimitKind;
  /** the flag of the command line */
  flag: string;
  /** what the command line wants behind the number */
  unit?: string;
  help?: string;
}

const HINTS: Record<LimitKind, string> = { number: "none", whole: "none", time: "none, or 12h", memory: "none, or 64G" };
const FAULTS: Record<LimitKind, string> = {
  number: "A number, or nothing for no limit",
  whole: "A whole number, or nothing for no limit",
  time: "A time such as 12h or 2h30m",
  memory: "A size such as 64G",
};

type Values = Record<string, number | null | undefined>;

export interface Limits {
  texts: Record<string, string>;
  set: (key: string, text: string) => void;
  /** what was written, once all of it can be read */
  read: Record<string, number | null> | null;
  /** the flags for what was changed */
  flags: string[];
}

export function useLimits(fields: readonly LimitField[], start: Values): Limits {
  const first = Object.fromEntries(fields.map(({ key, kind }) => [key, limitText(start[key], kind)]));
  const [texts, setTexts] = useState<Record<string, string>>(first);
  const values = fields.map(({ key, kind }) => [key, readLimit(texts[key] ?? "", kind)] as const);
  return {
    texts,
    set: (key, text) => setTexts((before) => ({ ...before, [key]: text })),
    read: values.every(([, value]) => value !== undefined) ? (Object.fromEntries(values) as Record<string, number | null>) : null,
    flags: fields.flatMap(({ key, flag, unit = "" }) => {
      const text = (texts[key] ?? "").trim();
      return texts[key] === first[key] ? [] : [flag, text === "" ? "none" : text + unit];
    }),
  };
}

export function LimitFields({ fields, limits }: { fields: readonly LimitField[]; limits: Limits }): ReactElement {
  return (
    <div className="settings-grid">
      {fields.map(({ key, label, kind, help }) => (
        <Text
          key={key}
          label={label}
          value={limits.texts[key] ?? ""}
          hint={HINTS[kind]}
          {...(help === undefined ? {} : { help })}
          fault={readLimit(limits.texts[key] ?? "", kind) === undefined ? FAULTS[kind] : undefined}
          onChange={(text) => limits.set(key, text)}
        />
      ))}
    </div>
  );
}
