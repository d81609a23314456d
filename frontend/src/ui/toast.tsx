/** Short messages at the corner: what was done, and how to take it back. */
import { useSyncExternalStore, type ReactElement } from "react";

interface Toast {
  id: number;
  text: string;
  action: { word: string; run: () => void } | null;
  /** the `yard` line that does the same */
  line: string | null;
}

let toasts: readonly Toast[] = [];
let next = 1;
const listeners = new Set<() => void>();

function change(now: readonly Toast[]): void {
  toasts = now;
  listeners.forEach((listener) => listener());
}

/** Show a message for some seconds, with an action such as Undo, and the command that does the same. */
export function toast(text: string, action: Toast["action"] = null, line: string | null = null): void {
  const one = { id: next, text, action, line };
  next += 1;
  change([...toasts, one].slice(-3));
  setTimeout(() => change(toasts.filter(({ id }) => id !== one.id)), action === null && line === null ? 4000 : 9000);
}

/** Say that something failed. */
export function complain(what: string, error: unknown): void {
  toast(`${what}: ${error instanceof Error ? error.message : String(error)}`);
}

/** Where the messages appear. */
export function Toasts(): ReactElement {
  const shown = useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => toasts,
  );
  return (
    <div className="toasts" role="status" aria-live="polite">
      {shown.map((one) => (
        <div key={one.id} className="toast">
          <span className="toast-text">
            {one.text}
            {one.line !== null && <code title="The same from a terminal">{one.line}</code>}
          </span>
          {one.action !== null && (
            <button
              type="button"
              className="btn small"
              onClick={() => {
                one.action?.run();
                change(toasts.filter(({ id }) => id !== one.id));
              }}
            >
              {one.action.word}
            </button>
          )}
        </div>
      ))}
    </div>
  );
}
