/** The tree of routes and which of them an address means. Pure. */
import type { ComponentType } from "react";

export type Words = Record<string, string>;
/** A query to write; what is undefined is left out. */
export type Query = Record<string, unknown>;
/** A page; where its code is loaded late it says how, and whether it is here. */
export type Page = ComponentType & { preload?: () => Promise<unknown>; isHere?: () => boolean };
export type Middleware = (before: Query, next: Query) => Query;

export interface RouteOptions {
  getParentRoute?: () => Route;
  path?: string;
  component?: Page;
  notFoundComponent?: Page;
  validateSearch?: (search: Record<string, unknown>) => Query;
  /** throws a redirect */
  beforeLoad?: () => void;
  search?: { middlewares: Middleware[] };
}

export interface Route {
  options: RouteOptions;
  children: Route[];
  addChildren: (children: Route[]) => Route;
}

export interface Match {
  /** from the root to the page */
  chain: Route[];
  params: Words;
  isMissing: boolean;
}

export function createRoute(options: RouteOptions): Route {
  const route: Route = {
    options,
    children: [],
    addChildren: (children) => {
      route.children = children;
      return route;
    },
  };
  return route;
}

export const createRootRoute = (options: Omit<RouteOptions, "path" | "getParentRoute"> = {}): Route => createRoute(options);

const parts = (path: string): string[] => path.split("/").filter((part) => part !== "");

/** Keep some words of the query wherever one goes. */
export function retainSearchParams(keys: readonly string[]): Middleware {
  return (before, next) => ({ ...Object.fromEntries(keys.filter((key) => !(key in next)).map((key) => [key, before[key]])), ...next });
}

/** Find the route of a path. Fixed words go before parameters; an address without a page keeps the frame it lies in. */
export function matchRoute(root: Route, pathname: string): Match {
  const wanted = parts(pathname);
  const found = candidates(root, [], [])
    .map(({ chain, pattern }) => ({ chain, pattern, params: readParams(pattern, wanted) }))
    .filter((one) => one.params !== null)
    .toSorted((a, b) => parameters(a.pattern) - parameters(b.pattern))[0];
  if (found !== undefined) {
    return { chain: found.chain, params: found.params ?? {}, isMissing: false };
  }
  const frame = root.children.find((child) => child.children.length > 0 && parts(child.options.path ?? "")[0] === wanted[0]);
  return { chain: frame === undefined ? [root] : [root, frame], params: {}, isMissing: true };
}

function candidates(route: Route, above: Route[], path: string[]): { chain: Route[]; pattern: string[] }[] {
  const chain = [...above, route];
  const pattern = [...path, ...parts(route.options.path ?? "")];
  return route.children.length > 0 ? route.children.flatMap((child) => candidates(child, chain, pattern)) : [{ chain, pattern }];
}

const parameters = (pattern: readonly string[]): number => pattern.filter((part) => part.startsWith("$")).length;

function readParams(pattern: readonly string[], wanted: readonly string[]): Words | null {
  if (pattern.length !== wanted.length) {
    return null;
  }
  const params: Words = {};
  for (const [at, part] of pattern.entries()) {
    const given = wanted[at] ?? "";
    if (part.startsWith("$")) {
      params[part.slice(1)] = decode(given);
    } else if (part !== given) {
      return null;
    }
  }
  return params;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Fill parameters into a path: /app/runs/$runId. */
export function fillPath(path: string, params: Readonly<Record<string, string>> = {}): string {
  return path.replace(/\$(\w+)/g, (_, name: string) => encodeURIComponent(params[name] ?? ""));
}
