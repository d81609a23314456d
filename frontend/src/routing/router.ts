/** Goes from page to page: reads the address, loads the page's code, keeps scroll positions. Knows no page. */
import type { ComponentType } from "react";

import { browserHistory, type History } from "./history";
import { fillPath, matchRoute, type Match, type Query, type Route, type Words } from "./routes";

export interface Place {
  /** without the base path */
  pathname: string;
  search: Words;
  hash: string;
}

export interface Shown {
  place: Place;
  match: Match;
  search: Words;
}

export interface Target {
  to?: string;
  /** an address as it stands, instead of `to` */
  href?: string;
  params?: Readonly<Record<string, string>>;
  search?: Query | ((now: Words) => Query) | true;
  hash?: string | true;
  replace?: boolean;
  resetScroll?: boolean;
}

export interface ErrorComponentProps {
  error: Error;
  reset: () => void;
}

export interface RouterOptions {
  routeTree: Route;
  basepath?: string;
  history?: History;
  parseSearch?: (text: string) => Words;
  stringifySearch?: (search: Query) => string;
  defaultErrorComponent?: ComponentType<ErrorComponentProps>;
  defaultNotFoundComponent?: ComponentType;
  /** milliseconds for which the page before stays while the next one's code is on its way */
  defaultPendingMs?: number;
}

class Redirect {
  readonly target: Target;
  constructor(target: Target) {
    this.target = target;
  }
}

/** What a route throws to send its visitor elsewhere. */
export const redirect = (target: Target): Redirect => new Redirect(target);

const SCROLLER = "page";

export class Router {
  readonly options: RouterOptions;
  shown: Shown | null = null;
  private readonly history: History;
  private readonly base: string;
  private readonly listeners = new Set<() => void>();
  private readonly scrolls = new Map<string, number>();
  private key = "";
  private turn = 0;

  constructor(options: RouterOptions) {
    this.options = options;
    this.history = options.history ?? browserHistory();
    this.base = (options.basepath ?? "/").replace(/\/$/, "");
    this.history.listen(() => void this.follow(true));
  }

  /** Where the address says we are, whether or not its page is drawn yet. */
  get latestLocation(): Place {
    const url = new URL(this.history.href(), "http://local");
    const pathname = this.base !== "" && url.pathname.startsWith(this.base) ? url.pathname.slice(this.base.length) || "/" : url.pathname;
    const parse = this.options.parseSearch ?? ((text: string) => Object.fromEntries(new URLSearchParams(text)));
    return { pathname, search: parse(url.search), hash: url.hash.slice(1) };
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  /** Have the page of the address at hand. */
  async load(): Promise<void> {
    if (this.shown === null) {
      await this.follow(false);
    }
  }

  /** The address of a target, with the base path. */
  hrefOf(target: Target): string {
    if (target.href !== undefined) {
      return this.base + target.href;
    }
    const now = this.latestLocation;
    const pathname = target.to === undefined || target.to === "." ? now.pathname : fillPath(target.to, target.params);
    const wanted = target.search === true ? now.search : typeof target.search === "function" ? target.search(now.search) : (target.search ?? {});
    const middlewares = matchRoute(this.options.routeTree, pathname).chain.flatMap((route) => route.options.search?.middlewares ?? []);
    const search = middlewares.reduce<Query>((next, keep) => keep(now.search, next), wanted);
    const hash = target.hash === true ? now.hash : (target.hash ?? "");
    const write = this.options.stringifySearch ?? ((query: Query) => (Object.keys(query).length === 0 ? "" : `?${new URLSearchParams(query as Words).toString()}`));
    return `${this.base}${pathname}${write(search)}${hash === "" ? "" : `#${hash}`}`;
  }

  readonly navigate = async (target: Target): Promise<void> => {
    const href = this.hrefOf(target);
    this.remember();
    this.history.go(href, target.replace === true || href === this.history.href());
    await this.follow(false, target.resetScroll);
  };

  /** Load a page's code before it is asked for. */
  preload(target: Target): void {
    const path = new URL(this.hrefOf(target), "http://local").pathname.slice(this.base.length);
    codeOf(matchRoute(this.options.routeTree, path))?.catch(() => undefined);
  }

  private remember(): void {
    const scroller = typeof document === "undefined" ? null : document.getElementById(SCROLLER);
    if (scroller !== null && this.key !== "") {
      this.scrolls.set(this.key, scroller.scrollTop);
    }
  }

  /** Show the page of the address. */
  private async follow(isBack: boolean, resetScroll = true): Promise<void> {
    if (isBack) {
      this.remember();
    }
    this.turn += 1;
    const turn = this.turn;
    const place = this.latestLocation;
    const match = matchRoute(this.options.routeTree, place.pathname);
    try {
      match.chain.forEach((route) => route.options.beforeLoad?.());
    } catch (cause) {
      if (cause instanceof Redirect) {
        await this.navigate(cause.target);
        return;
      }
      throw cause;
    }
    const code = codeOf(match);
    if (code !== null) {
      const patience = new Promise((resolve) => setTimeout(resolve, this.options.defaultPendingMs ?? 300));
      await Promise.race([code.catch(() => undefined), ...(this.shown === null ? [] : [patience])]);
      if (turn !== this.turn) {
        return;
      }
    }
    this.show(place, match);
    this.scroll(isBack, resetScroll);
  }

  private show(place: Place, match: Match): void {
    const before = this.shown;
    const given: Record<string, unknown> = { ...place.search };
    const read = match.chain.reduce((search, route) => ({ ...search, ...route.options.validateSearch?.(given) }), given) as Words;
    const isSame = before !== null && JSON.stringify(before.search) === JSON.stringify(read);
    const isSamePage = before !== null && before.match.chain.at(-1) === match.chain.at(-1) && JSON.stringify(before.match.params) === JSON.stringify(match.params);
    this.shown = { place, match: isSamePage ? { ...match, params: before.match.params } : match, search: isSame ? before.search : read };
    this.listeners.forEach((listener) => listener());
  }

  private lastPath = "";

  private scroll(isBack: boolean, resetScroll: boolean): void {
    const { pathname, hash } = this.latestLocation;
    const isElsewhere = this.lastPath !== pathname;
    const isFirst = this.lastPath === "";
    this.lastPath = pathname;
    this.key = this.history.key();
    const top = isBack ? (this.scrolls.get(this.key) ?? 0) : 0;
    if (typeof document === "undefined" || isFirst || (!isBack && (!isElsewhere || !resetScroll))) {
      return;
    }
    requestAnimationFrame(() => {
      const target = hash === "" ? null : document.getElementById(hash);
      if (target !== null) {
        target.scrollIntoView();
      } else {
        document.getElementById(SCROLLER)?.scrollTo({ top });
      }
    });
  }
}

/** The code that a match still needs; null where all of it is here. */
function codeOf(match: Match): Promise<unknown> | null {
  const missing = match.chain.flatMap(({ options: { component } }) => (component?.isHere?.() === false ? [component.preload?.()] : []));
  return missing.length === 0 ? null : Promise.all(missing);
}

export const createRouter = (options: RouterOptions): Router => new Router(options);
