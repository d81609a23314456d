/** Keys that work on every page. A page may hear its own beside them. */
import { useNavigate } from "@tanstack/react-router";
import { useEffect, useRef } from "react";

const PLACES: Record<string, string> = {
  h: "/app/home",
  e: "/app/experiments",
  r: "/app/runs",
  m: "/app/models",
  q: "/app/queue",
  n: "/app/nodes",
  s: "/app/leases",
  l: "/app/log",
};

/** Whether a key was meant for a text being written, or for an open dialog. */
export function isTyping(event: KeyboardEvent): boolean {
  const target = event.target as HTMLElement | null;
  return target !== null && (/^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || target.isContentEditable || target.closest("dialog, .menu") !== null);
}

/** Hear plain keys while no text is being written. */
export function usePlainKeys(handler: (key: string, event: KeyboardEvent) => boolean): void {
  const latest = useRef(handler);
  useEffect(() => {
    latest.current = handler;
  });
  useEffect(() => {
    const hear = (event: KeyboardEvent): void => {
      if (!isTyping(event) && !event.ctrlKey && !event.metaKey && !event.altKey && latest.current(event.key, event)) {
        event.preventDefault();
      }
    };
    document.addEventListener("keydown", hear);
    return () => document.removeEventListener("keydown", hear);
  }, []);
}

/** The keys of the frame: palette, help, and `g` with a letter for a place. */
export function useKeys({ onPalette, onHelp }: { onPalette: () => void; onHelp: () => void }): void {
  const navigate = useNavigate();
  const going = useRef(0);
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
    const place = PLACES[key];
    if (performance.now() - going.current < 1200 && place !== undefined) {
      going.current = 0;
      void navigate({ to: place });
      return true;
    }
    if (key === "g") {
      going.current = performance.now();
      return true;
    }
    if (key === "?") {
      onHelp();
      return true;
    }
    return false;
  });
}
