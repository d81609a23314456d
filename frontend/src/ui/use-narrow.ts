/** Whether the screen is as narrow as a phone. */
import { useSyncExternalStore } from "react";

const query = "(max-width: 720px)";

export function useNarrow(): boolean {
  return useSyncExternalStore(
    (listener) => {
      const media = window.matchMedia(query);
      media.addEventListener("change", listener);
      return () => media.removeEventListener("change", listener);
    },
    () => window.matchMedia(query).matches,
  );
}
