/** The view of the runs page: read from the address, written back to it. */
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback, useEffect, useMemo, useRef } from "react";

import { isStep, readView, writeView, type View } from "../../lib/view";

export type Change = (change: Partial<View> | ((view: View) => Partial<View>)) => void;

export function useView(): [View, Change] {
  const search = useSearch({ from: "/app/runs" });
  const navigate = useNavigate();
  const key = JSON.stringify(search);
  const view = useMemo(() => readView(JSON.parse(key) as Record<string, string>), [key]);
  const latest = useRef(view);
  useEffect(() => {
    latest.current = view;
  }, [view]);
  const change = useCallback<Change>(
    (wanted) => {
      const part = typeof wanted === "function" ? wanted(latest.current) : wanted;
      const replace = !isStep(latest.current, part);
      latest.current = { ...latest.current, ...part };
      void navigate({ to: "/app/runs", search: writeView(latest.current), replace, resetScroll: false });
    },
    [navigate],
  );
  return [view, change];
}
