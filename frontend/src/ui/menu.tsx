/** Menus and dialogs: opened by a button, closed by Escape or a click elsewhere, walked with arrows. */
import { useCallback, useEffect, useLayoutEffect, useRef, useState, type KeyboardEvent, type ReactElement, type ReactNode } from "react";
import { createPortal } from "react-dom";

import { Icon, type IconName } from "./icon";

/** What can have the focus in a popup. */
const INSIDE = "input, .menu-item:not(:disabled), button:not(:disabled), select";

/** A button that opens a menu below it. */
export function MenuButton(props: {
  label: ReactNode;
  name: string;
  icon?: IconName;
  quiet?: boolean;
  caret?: boolean;
  width?: number;
  children: (close: () => void) => ReactNode;
}): ReactElement {
  // The button while its menu is open. Held from the click on: to hold it from the start would draw every page twice.
  const [button, setButton] = useState<HTMLButtonElement | null>(null);
  const close = useCallback(() => {
    setButton(null);
    button?.focus();
  }, [button]);
  // What is read aloud holds what is seen, so that who speaks to the page can say it.
  const { label, name } = props;
  const spoken = typeof label === "string" && label !== "" && !name.includes(label) ? `${name}: ${label}` : name;
  return (
    <>
      <button
        type="button"
        className={`btn${props.quiet === true ? " quiet" : ""}`}
        aria-haspopup="menu"
        aria-expanded={button !== null}
        aria-label={spoken}
        title={name}
        onClick={(event) => setButton(button === null ? event.currentTarget : null)}
      >
        {props.icon !== undefined && <Icon name={props.icon} />}
        {props.label}
        {props.caret !== false && <Icon name="down" />}
      </button>
      {button !== null && (
        <Popup anchor={button} name={props.name} width={props.width} onClose={close}>
          {props.children(close)}
        </Popup>
      )}
    </>
  );
}

/** What a menu button opens; also usable at a place of one's own. */
export function Popup(props: {
  anchor: HTMLElement | null;
  name: string;
  width?: number | undefined;
  onClose: () => void;
  children: ReactNode;
}): ReactElement {
  const box = useRef<HTMLDivElement>(null);
  const [place, setPlace] = useState<{ left: number; top: number } | null>(null);
  const { anchor, onClose } = props;
  useLayoutEffect(() => {
    const at = anchor?.getBoundingClientRect();
    const size = box.current?.getBoundingClientRect();
    if (at !== undefined && size !== undefined) {
      const left = Math.max(8, Math.min(at.left, window.innerWidth - size.width - 8));
      const below = at.bottom + 4;
      const top = below + size.height > window.innerHeight - 8 ? Math.max(8, at.top - size.height - 4) : below;
      setPlace({ left, top });
    }
  }, [anchor]);
  const isPlaced = place !== null;
  useEffect(() => {
    // What is hidden cannot have the focus, and until it has a place the menu is.
    if (isPlaced) {
      (box.current?.querySelector<HTMLElement>(INSIDE) ?? box.current)?.focus();
    }
  }, [isPlaced]);
  useEffect(() => {
    const outside = (event: PointerEvent): void => {
      const target = event.target as Node;
      if (box.current?.contains(target) === false && anchor?.contains(target) !== true) {
        onClose();
      }
    };
    document.addEventListener("pointerdown", outside);
    return () => document.removeEventListener("pointerdown", outside);
  }, [anchor, onClose]);
  const keys = (event: KeyboardEvent): void => {
    if (event.key === "Escape") {
      event.stopPropagation();
      onClose();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      walk(box.current, event);
    } else if (event.key === "Tab") {
      turn(box.current, event);
    }
  };
  return createPortal(
    // oxlint-disable-next-line jsx-a11y/no-static-element-interactions -- keys are heard for the items inside
    <div
      ref={box}
      className="menu"
      role="menu"
      tabIndex={-1}
      aria-label={props.name}
      style={{ left: place?.left ?? 0, top: place?.top ?? 0, visibility: place === null ? "hidden" : "visible", width: props.width }}
      onKeyDown={keys}
    >
      {props.children}
    </div>,
    document.body,
  );
}

/** Keep the focus inside: the popup lies at the end of the page, and behind it is nothing. */
function turn(box: HTMLElement | null, event: KeyboardEvent): void {
  const items = [...(box?.querySelectorAll<HTMLElement>(INSIDE) ?? [])];
  const end = event.shiftKey ? items[0] : items[items.length - 1];
  const next = event.shiftKey ? items[items.length - 1] : items[0];
  if (next !== undefined && document.activeElement === end) {
    event.preventDefault();
    next.focus();
  }
}

function walk(box: HTMLElement | null, event: KeyboardEvent): void {
  const items = [...(box?.querySelectorAll<HTMLElement>("input, .menu-item:not(:disabled)") ?? [])];
  const at = items.indexOf(document.activeElement as HTMLElement);
  const step = event.key === "ArrowDown" ? 1 : -1;
  const next = items[(at + step + items.length) % items.length];
  if (next !== undefined) {
    event.preventDefault();
    next.focus();
  }
}

/** One line of a menu. */
export function MenuItem(props: {
  onClick: () => void;
  children: ReactNode;
  icon?: IconName;
  danger?: boolean;
  disabled?: boolean;
  checked?: boolean;
  title?: string;
  /** told when the pointer or the focus comes and goes */
  onNear?: (isNear: boolean) => void;
}): ReactElement {
  const near = props.onNear;
  const role = props.checked === undefined ? "menuitem" : "menuitemcheckbox";
  return (
    <button
      type="button"
      role={role}
      aria-checked={props.checked}
      className={`menu-item${props.danger === true ? " danger" : ""}`}
      disabled={props.disabled}
      title={props.title}
      onClick={props.onClick}
      onPointerEnter={near && (() => near(true))}
      onPointerLeave={near && (() => near(false))}
      onFocus={near && (() => near(true))}
      onBlur={near && (() => near(false))}
    >
      {props.checked !== undefined && (
        <span style={{ width: 16, display: "inline-flex" }}>{props.checked && <Icon name="tick" />}</span>
      )}
      {props.icon !== undefined && <Icon name={props.icon} />}
      {props.children}
    </button>
  );
}

/** A dialog over the page. */
export function Dialog(props: { title: string; onClose: () => void; wide?: boolean; children: ReactNode }): ReactElement {
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = box.current;
    if (dialog !== null && !dialog.open) {
      dialog.showModal();
    }
    return () => dialog?.close();
  }, []);
  const { onClose } = props;
  return (
    <dialog
      ref={box}
      className={props.wide === true ? "wide" : ""}
      aria-label={props.title}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
    >
      <div className="dialog-body">
        <div className="row">
          <h2 className="grow">{props.title}</h2>
          <button type="button" className="btn quiet small icon" aria-label="Close" onClick={onClose}>
            <Icon name="cross" />
          </button>
        </div>
        {props.children}
      </div>
    </dialog>
  );
}
