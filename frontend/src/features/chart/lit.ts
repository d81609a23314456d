/** Which run is under the pointer in the table: its curve comes forward in every chart. */
import { useSyncExternalStore } from "react";

let lit: string | null = null;
const listeners = new Set<() => void>();

/** Bring a run forward, or none. */
export function setLit(run: string | null): void {
  if (run !== lit) {
    lit = run;
    listeners.forEach((listener) => listener());
  }
}

/** The run that is brought forward. */
export function useLit(): string | null {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => lit,
  );
}
