import { configure } from "@testing-library/dom";

// A busy machine is slow, not wrong.
configure({ asyncUtilTimeout: 60_000 });

/** What jsdom lacks and the pages' libraries ask for when they are loaded. */
if (typeof window !== "undefined" && typeof window.matchMedia !== "function") {
  window.matchMedia = (media: string): MediaQueryList =>
    ({ matches: false, media, addEventListener: () => undefined, removeEventListener: () => undefined }) as unknown as MediaQueryList;
}
