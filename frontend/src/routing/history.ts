/** Where the browser is, and going elsewhere. The only part that touches the browser's history. */

export interface History {
  /** path, query and hash */
  href: () => string;
  /** a mark of this place in the history, to find its scroll position again */
  key: () => string;
  go: (href: string, replace: boolean) => void;
  /** hear of back and forward */
  listen: (listener: () => void) => () => void;
}

const mark = (): string => Math.random().toString(36).slice(2, 10);

export function browserHistory(): History {
  return {
    href: () => window.location.pathname + window.location.search + window.location.hash,
    key: () => (window.history.state as { key?: string } | null)?.key ?? "first",
    go: (href, replace) => {
      if (replace) {
        window.history.replaceState({ key: (window.history.state as { key?: string } | null)?.key ?? mark() }, "", href);
      } else {
        window.history.pushState({ key: mark() }, "", href);
      }
    },
    listen: (listener) => {
      window.addEventListener("popstate", listener);
      return () => window.removeEventListener("popstate", listener);
    },
  };
}

/** A history without a browser, for tests. */
export function createMemoryHistory({ initialEntries }: { initialEntries: readonly string[] }): History {
  let entry = initialEntries[initialEntries.length - 1] ?? "/";
  return {
    href: () => entry,
    key: () => entry,
    go: (href) => {
      entry = href;
    },
    listen: () => () => undefined,
  };
}
