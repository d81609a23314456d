/** Short messages at the corner: what was done, and how to take it back. */
import { useSyncExternalStore, type ReactElement } from "react";

interface Toast {
  id: number;
  text: string;
  action: { word: string; run: () => void } | null;
}

let toasts: readonly Toast[] = [];
let next = 1;
const listeners = new Set<() => void>();

function change(now: readonly Toast[]): void {
  toasts = now;
  listeners.forEach((listener) => listener());
}

/** Show a message for some seconds, with an action such as Undo. */
export function toast(text: string, action: { word: string; run: () => void } | null = null): void {
  const one = { id: next, text, action };
  next += 1;
  change([...toasts, one].slice(-3));
  setTimeout(() => change(toasts.filter(({ id }) => id !== one.id)), action === null ? 4000 : 9000);
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
          <span className="grow">{one.text}</span>
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
