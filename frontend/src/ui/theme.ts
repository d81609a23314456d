/** Light or dark: as the system has it, unless this user chose. */
import { useSyncExternalStore } from "react";

export type Theme = "system" | "light" | "dark";

const KEY = "yard.theme";
const listeners = new Set<() => void>();

function stored(): Theme {
  try {
    const word = localStorage.getItem(KEY);
    return word === "light" || word === "dark" ? word : "system";
  } catch {
    return "system";
  }
}

let theme: Theme = "system";
let drawn = 0;

function apply(): void {
  if (theme === "system") {
    delete document.documentElement.dataset.theme;
  } else {
    document.documentElement.dataset.theme = theme;
  }
  drawn += 1;
  listeners.forEach((listener) => listener());
}

/** Take up the chosen theme, and follow the system when it changes. */
export function startTheme(): void {
  theme = stored();
  apply();
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", apply);
}

/** Choose a theme. */
export function setTheme(next: Theme): void {
  theme = next;
  localStorage.setItem(KEY, next);
  apply();
}

const subscribe = (listener: () => void): (() => void) => {
  listeners.add(listener);
  return () => listeners.delete(listener);
};

/** The chosen theme. */
export function useTheme(): Theme {
  return useSyncExternalStore(subscribe, () => theme);
}

/** A number that changes when colours do: canvases draw anew by it. */
export function useColours(): number {
  return useSyncExternalStore(subscribe, () => drawn);
}

/** The value of a token, for canvases. */
export function token(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Do something while the page is light, for instance print: paper is white. */
export async function inLight(act: () => void): Promise<void> {
  const before = document.documentElement.dataset.theme;
  document.documentElement.dataset.theme = "light";
  drawn += 1;
  listeners.forEach((listener) => listener());
  // Two frames: the charts are drawn anew in the first.
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  try {
    act();
  } finally {
    if (before === undefined) {
      delete document.documentElement.dataset.theme;
    } else {
      document.documentElement.dataset.theme = before;
    }
    drawn += 1;
    listeners.forEach((listener) => listener());
  }
}
