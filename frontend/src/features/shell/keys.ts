/** Keys that work on every page. A page may hear its own beside them. */
import { useNavigate } from "@tanstack/react-router";
import { useEffect, useRef } from "react";

const PLACES: Record<string, string> = {
  h: "/app/home",
  e: "/app/experiments",
  r: "/app/runs",
  m: "/app/models",
  o: "/app/reports",
  d: "/app/data",
  w: "/app/sweeps",
  a: "/app/alerts",
  q: "/app/queue",
  n: "/app/nodes",
  s: "/app/leases",
  p: "/app/plan",
  u: "/app/usage",
  b: "/app/logbook",
  l: "/app/log",
  ",": "/app/settings",
};

const WRITES = "input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable], dialog, .menu";
const PRESSED = "a, button, summary, input";

/** Whether a key was meant for a text being written, for an open dialog, or for the button or link in focus. */
export function isTyping(event: KeyboardEvent): boolean {
  const target = event.target instanceof Element ? event.target : null;
  const isPress = event.key === "Enter" || event.key === " ";
  return target !== null && target.closest(isPress ? `${PRESSED}, ${WRITES}` : WRITES) !== null;
}

/** Milliseconds for which `g` waits for its letter, and when it was last pressed. */
const WAITS = 1200;
let going = Number.NEGATIVE_INFINITY;

function placeAfterG(key: string): string | undefined {
  return performance.now() - going < WAITS ? PLACES[key] : undefined;
}

/** Hear plain keys while no text is being written. A letter after `g` is the frame's alone. */
export function usePlainKeys(handler: (key: string, event: KeyboardEvent) => boolean, isFrame = false): void {
  const latest = useRef(handler);
  useEffect(() => {
    latest.current = handler;
  });
  useEffect(() => {
    const hear = (event: KeyboardEvent): void => {
      const isTaken = event.defaultPrevented || (!isFrame && placeAfterG(event.key) !== undefined);
      if (!isTaken && !isTyping(event) && !event.ctrlKey && !event.metaKey && !event.altKey && latest.current(event.key, event)) {
        event.preventDefault();
      }
    };
    document.addEventListener("keydown", hear);
    return () => document.removeEventListener("keydown", hear);
  }, [isFrame]);
}

/** The keys of the frame: palette, help, and `g` with a letter for a place. */
export function useKeys({ onPalette, onHelp }: { onPalette: () => void; onHelp: () => void }): void {
  const navigate = useNavigate();
  useEffect(() => {
    const hear = (event: KeyboardEvent): void => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        onPalette();
      }
    };
    document.addEventListener("keydown", hear);
    return () => document.removeEventListener("keydown", hear);
  }, [onPalette]);
  usePlainKeys((key) => {
    const place = placeAfterG(key);
    if (place !== undefined) {
      going = Number.NEGATIVE_INFINITY;
      void navigate({ to: place });
      return true;
    }
    if (key === "g") {
      going = performance.now();
      return true;
    }
    if (key === "?") {
      onHelp();
      return true;
    }
    return false;
  }, true);
}
