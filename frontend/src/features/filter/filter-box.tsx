/** The filter in MLflow's language, with completion. What the server says of it stands below it. */
import { useId, useLayoutEffect, useMemo, useRef, useState, type KeyboardEvent, type ReactElement } from "react";

import { accept, complete, type Names } from "../../lib/filter";
import { Icon } from "../../ui/icon";

interface Props {
  value: string;
  names: Names;
  /** values seen for a field such as params.lr */
  known: (field: string) => readonly string[];
  error: string | null;
  onChange: (value: string) => void;
}

export function FilterBox({ value, names, known, error, onChange }: Props): ReactElement {
  const [text, setText] = useState(value);
  const [before, setBefore] = useState(value);
  const [caret, setCaret] = useState(value.length);
  const [open, setOpen] = useState(false);
  const [at, setAt] = useState(-1);
  const input = useRef<HTMLInputElement>(null);
  const list = useId();
  const wanted = useRef<number | null>(null);
  // In the same turn as the text: a frame later the next key has been typed already.
  useLayoutEffect(() => {
    if (wanted.current !== null) {
      input.current?.setSelectionRange(wanted.current, wanted.current);
      wanted.current = null;
    }
  });
  if (value !== before) {
    // The address changed under us: a saved view, or a step back.
    setBefore(value);
    setText(value);
  }
  const { from, suggestions } = useMemo(() => complete(text, caret, names, known), [text, caret, names, known]);
  const shown = open ? suggestions : [];

  const take = (insert: string): void => {
    const next = accept(text, caret, from, insert);
    setText(next.text);
    setCaret(next.caret);
    setAt(-1);
    wanted.current = next.caret;
  };
  const submit = (now: string): void => {
    setOpen(false);
    setAt(-1);
    onChange(now.trim());
  };
  const keys = (event: KeyboardEvent): void => {
    const chosen = shown[at];
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      setOpen(true);
      const count = suggestions.length;
      setAt(count === 0 ? -1 : event.key === "ArrowDown" ? (at + 1) % count : (at <= 0 ? count : at) - 1);
    } else if ((event.key === "Enter" || event.key === "Tab") && chosen !== undefined) {
      event.preventDefault();
      take(chosen.insert);
    } else if (event.key === "Enter") {
      submit(text);
    } else if (event.key === "Escape") {
      if (shown.length > 0) {
        setOpen(false);
      } else {
        input.current?.blur();
      }
    }
  };
  return (
    <div className="filter">
      <Icon name="search" />
      <input
        ref={input}
        className="filter-input mono"
        data-filter
        role="combobox"
        aria-label="Filter"
        aria-expanded={shown.length > 0}
        aria-controls={list}
        aria-invalid={error !== null}
        spellCheck={false}
        autoComplete="off"
        placeholder="metrics.val_accuracy > 0.7 AND params.lr = '1e-4'"
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setCaret(event.target.selectionStart ?? event.target.value.length);
          setOpen(true);
          setAt(-1);
        }}
        onSelect={(event) => setCaret(event.currentTarget.selectionStart ?? 0)}
        onFocus={() => setOpen(true)}
        onBlur={() => setTimeout(() => setOpen(false), 120)}
        onKeyDown={keys}
      />
      {text !== "" && (
        <button type="button" className="cell-button" aria-label="Clear the filter" onClick={() => submit("")}>
          <Icon name="cross" />
        </button>
      )}
      <div id={list} role="listbox" aria-label="Suggestions" className="menu filter-list" hidden={shown.length === 0}>
        {shown.map((one, place) => (
          <button
            type="button"
            role="option"
            key={one.label}
            tabIndex={-1}
            aria-selected={place === at}
            className="menu-item"
            onMouseDown={(event) => {
              event.preventDefault();
              take(one.insert);
            }}
          >
            <span className="grow clip mono">{one.label}</span>
            <span className="faint">{one.hint}</span>
          </button>
        ))}
      </div>
      {error !== null && (
        <p className="filter-error" role="alert">
          <Icon name="warn" />
          {error}
        </p>
      )}
    </div>
  );
}
