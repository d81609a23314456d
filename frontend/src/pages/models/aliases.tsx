/** Aliases of a version: promoting a version is pointing an alias at it. */
import { useState, type FormEvent, type ReactElement } from "react";

import { deleteAlias, setAlias } from "../../api/models";
import { yard } from "../../lib/yard-line";
import { Icon } from "../../ui/icon";
import { MenuButton, MenuItem } from "../../ui/menu";
import { YardLine } from "../../ui/parts";
import { complain, toast } from "../../ui/toast";

interface Props {
  model: string;
  version: string;
  aliases: readonly string[];
  /** every alias of the model, to promote by one click */
  known: readonly { alias: string; version: string }[];
  onChange: () => Promise<void>;
}

export function AliasEditor({ model, version, aliases, known, onChange }: Props): ReactElement {
  const [text, setText] = useState("");
  /** the alias under the pointer or the focus, whose command is shown */
  const [near, setNear] = useState<string | null>(null);
  const point = async (alias: string): Promise<void> => {
    const before = known.find((one) => one.alias === alias)?.version;
    try {
      await setAlias(model, alias, version);
      await onChange();
      const undo = (): void => void (before === undefined ? deleteAlias(model, alias) : setAlias(model, alias, before)).then(onChange);
      toast(`@${alias} now points at version ${version}`, { word: "Undo", run: undo }, yard.alias(model, version, alias));
    } catch (cause) {
      complain("The alias was not set", cause);
    }
  };
  const remove = (alias: string): void => {
    deleteAlias(model, alias).then(
      async () => {
        await onChange();
        toast(`Removed @${alias}`, { word: "Undo", run: () => void point(alias) }, yard.unalias(model, alias));
      },
      (cause: unknown) => complain("The alias was not removed", cause),
    );
  };
  const submit = (event: FormEvent, close: () => void): void => {
    event.preventDefault();
    if (text.trim() !== "") {
      void point(text.trim().replace(/^@/, "")).then(close);
    }
  };
  return (
    <span className="row wrap" style={{ gap: 4 }}>
      {aliases.map((alias) => (
        <span key={alias} className="chip accent">
          @{alias}
          <button type="button" aria-label={`Remove alias ${alias}`} title={yard.unalias(model, alias)} onClick={() => remove(alias)}>
            ×
          </button>
        </span>
      ))}
      <MenuButton name={`Promote version ${version}`} label={<Icon name="plus" />} quiet caret={false} width={270}>
        {(close) => (
          <>
            <div className="menu-head">Point an alias at version {version}</div>
            {known
              .filter((one) => one.version !== version)
              .map((one) => (
                <MenuItem
                  key={one.alias}
                  onNear={(isNear) => setNear(isNear ? one.alias : null)}
                  onClick={() => {
                    close();
                    void point(one.alias);
                  }}
                >
                  <b className="grow">@{one.alias}</b>
                  <span className="faint">now at v{one.version}</span>
                </MenuItem>
              ))}
            <form className="row" style={{ padding: 4 }} onSubmit={(event) => submit(event, close)}>
              <input className="field grow" placeholder="champion" aria-label="New alias" value={text} onChange={(event) => setText(event.target.value)} />
              <button type="submit" className="btn" disabled={text.trim() === ""}>
                Set
              </button>
            </form>
            <YardLine line={yard.alias(model, version, near ?? (text || "champion"))} />
          </>
        )}
      </MenuButton>
    </span>
  );
}
