/** Whether the screen is as narrow as a phone. */
import { useSyncExternalStore } from "react";

// One for all: to ask the browser anew in each drawing takes it longer than the rest of a small part.
let media: MediaQueryList | null = null;
const narrow = (): MediaQueryList => (media ??= window.matchMedia("(max-width: 720px)"));

const subscribe = (listener: () => void): (() => void) => {
  narrow().addEventListener("change", listener);
  return () => narrow().removeEventListener("change", listener);
};
const isNarrow = (): boolean => narrow().matches;

export function useNarrow(): boolean {
  return useSyncExternalStore(subscribe, isNarrow);
}
