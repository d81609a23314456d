/** Tags as chips: add, change, take away. */
import { useState, type FormEvent, type ReactElement } from "react";

import type { KeyValue } from "../../api/wire";
import { Icon } from "../../ui/icon";
import { YardLine } from "../../ui/parts";
import { complain, toast } from "../../ui/toast";

interface Props {
  tags: readonly KeyValue[];
  onSet: (key: string, value: string) => Promise<unknown>;
  onRemove: (key: string) => Promise<unknown>;
  /** the command that does the same; without a value, the one that takes the tag away */
  line: (key: string, value: string | null) => string;
}

/** Tags that pages show in their own places. */
export function isOwnTag(key: string): boolean {
  return key.startsWith("mlflow.") || key.startsWith("yard.");
}

export function Tags({ tags, onSet, onRemove, line }: Props): ReactElement {
  const [text, setText] = useState("");
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    const [key = "", ...rest] = text.split("=");
    if (key.trim() !== "") {
      onSet(key.trim(), rest.join("=").trim()).then(
        () => setText(""),
        (cause: unknown) => complain("The tag was not set", cause),
      );
    }
  };
  const remove = ({ key, value }: KeyValue): void => {
    onRemove(key).then(
      () => toast(`Removed the tag ${key}`, { word: "Undo", run: () => void onSet(key, value) }, line(key, null)),
      (cause: unknown) => complain("The tag was not removed", cause),
    );
  };
  return (
    <div className="row wrap" style={{ gap: 6 }}>
      {tags
        .filter((tag) => !isOwnTag(tag.key))
        .map((tag) => (
          <span key={tag.key} className="chip" title={`${tag.key} = ${tag.value}`}>
            <span className="clip">
              <span className="muted">{tag.key}</span> {tag.value}
            </span>
            <button type="button" aria-label={`Remove tag ${tag.key}`} title={line(tag.key, null)} onClick={() => remove(tag)}>
              ×
            </button>
          </span>
        ))}
      <form className="row" onSubmit={submit}>
        <input className="field" style={{ width: 130, height: 22 }} placeholder="name=value" aria-label="Add a tag" value={text} onChange={(event) => setText(event.target.value)} />
        <button type="submit" className="btn quiet small icon" aria-label="Add the tag" disabled={text.trim() === ""}>
          <Icon name="plus" />
        </button>
      </form>
      {text.includes("=") && <YardLine line={line(text.split("=")[0]?.trim() ?? "", text.slice(text.indexOf("=") + 1).trim())} />}
    </div>
  );
}
