/** The size of a box, kept up to date. */
import { useEffect, useRef, useState, type RefObject } from "react";

export function useSize<T extends HTMLElement>(height: number): { box: RefObject<T | null>; width: number; height: number } {
  const box = useRef<T>(null);
  const [width, setWidth] = useState(600);
  useEffect(() => {
    const watcher = new ResizeObserver(([entry]) => entry !== undefined && setWidth(Math.max(240, entry.contentRect.width)));
    if (box.current !== null) {
      watcher.observe(box.current);
    }
    return () => watcher.disconnect();
  }, []);
  return { box, width, height };
}
