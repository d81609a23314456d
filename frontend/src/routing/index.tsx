/**
 * The pages' router: routes, links and hooks by the names that TanStack Router gave them, of which the pages use a
 * tenth. Written here because the first page is counted by the kilobyte.
 */
import {
  Component,
  createContext,
  Suspense,
  use,
  useCallback,
  useContext,
  useEffect,
  useSyncExternalStore,
  type AnchorHTMLAttributes,
  type ComponentType,
  type MouseEvent,
  type ReactElement,
  type ReactNode,
} from "react";

import type { ErrorComponentProps, Place, Router, Shown, Target } from "./router";
import type { Page, Words } from "./routes";

export { createMemoryHistory } from "./history";
export { createRouter, redirect, type ErrorComponentProps } from "./router";
export { createRootRoute, createRoute, retainSearchParams } from "./routes";

const RouterContext = createContext<Router | null>(null);
/** How deep in the chain of routes what is drawn lies. */
const DepthContext = createContext(0);

function useRouter(): Router {
  const router = useContext(RouterContext);
  if (router === null) {
    throw new Error("this must be drawn inside a RouterProvider");
  }
  return router;
}

function useShown(): Shown {
  const router = useRouter();
  const shown = useSyncExternalStore(router.subscribe, () => router.shown);
  if (shown === null) {
    throw new Error("no page is loaded yet");
  }
  return shown;
}

/** Draws the page of the address. */
export function RouterProvider({ router }: { router: Router }): ReactElement {
  const shown = useSyncExternalStore(router.subscribe, () => router.shown);
  useEffect(() => void router.load(), [router]);
  return (
    <RouterContext value={router}>
      <Suspense fallback={null}>{shown !== null && <Level depth={0} />}</Suspense>
    </RouterContext>
  );
}

/** The part of the page that lies below this one. */
export function Outlet(): ReactElement | null {
  const depth = useContext(DepthContext);
  return <Level depth={depth + 1} />;
}

function Level({ depth }: { depth: number }): ReactElement | null {
  const router = useRouter();
  const { match, place } = useShown();
  const route = match.chain[depth];
  if (route === undefined) {
    if (!match.isMissing || depth !== match.chain.length) {
      return null;
    }
    const Missing = match.chain.findLast((one) => one.options.notFoundComponent)?.options.notFoundComponent ?? router.options.defaultNotFoundComponent;
    return Missing === undefined ? null : <Missing />;
  }
  const Shown = route.options.component ?? Outlet;
  const key = depth === match.chain.length - 1 ? JSON.stringify(match.params) : "";
  return (
    <DepthContext value={depth}>
      <Guard key={key} view={router.options.defaultErrorComponent} place={place}>
        <Shown />
      </Guard>
    </DepthContext>
  );
}

interface GuardProps {
  view: ComponentType<ErrorComponentProps> | undefined;
  place: Place;
  children: ReactNode;
}

/** Holds a failure where it happened; another address clears it. */
class Guard extends Component<GuardProps, { error: Error | null; place: Place }> {
  constructor(props: GuardProps) {
    super(props);
    this.state = { error: null, place: props.place };
  }

  static getDerivedStateFromError(error: Error): { error: Error } {
    return { error };
  }

  static getDerivedStateFromProps(props: GuardProps, state: { error: Error | null; place: Place }): { error: Error | null; place: Place } | null {
    return props.place === state.place ? null : { error: null, place: props.place };
  }

  override render(): ReactNode {
    const { error } = this.state;
    const View = this.props.view;
    if (error === null) {
      return this.props.children;
    }
    if (View === undefined) {
      throw error;
    }
    return <View error={error} reset={() => this.setState({ error: null })} />;
  }
}

/** A page whose code is loaded when it is first wanted. */
export function lazyRouteComponent<T extends Record<string, unknown>, Name extends keyof T>(load: () => Promise<T>, name: Name): Page {
  let found: ComponentType | null = null;
  let asked: Promise<ComponentType> | null = null;
  const ask = (): Promise<ComponentType> => {
    asked ??= load().then((code) => {
      found = code[name] as ComponentType;
      return found;
    });
    asked.catch(() => {
      asked = null;
    });
    return asked;
  };
  const Lazy: Page = () => {
    // oxlint-disable-next-line react/static-components -- it is made once, when its code arrives
    const Found = found ?? use(ask());
    // oxlint-disable-next-line react/static-components -- likewise
    return <Found />;
  };
  Lazy.preload = ask;
  Lazy.isHere = () => found !== null;
  return Lazy;
}

type Names<Path extends string> = Path extends `${string}$${infer Name}/${infer Rest}` ? Name | Names<Rest> : Path extends `${string}$${infer Name}` ? Name : never;

/** The words of the path, by the names the route gives them. */
export function useParams<Path extends string>(_where: { from: Path }): Record<Names<Path>, string> {
  return useShown().match.params as Record<Names<Path>, string>;
}

/** The words of the query. */
export function useSearch(_where: { from: string } | { strict: false }): Words {
  return useShown().search;
}

export function useLocation(): Place {
  return useShown().place;
}

export function useNavigate(): (target: Target) => Promise<void> {
  return useRouter().navigate;
}

type LinkProps = Omit<Target, "href"> & Omit<AnchorHTMLAttributes<HTMLAnchorElement>, "href"> & { to: string; ref?: React.Ref<HTMLAnchorElement>; disabled?: boolean };

/** A link to a page of ours. Its code is on its way once the pointer or the focus is on it. */
export function Link({ to, params, search, hash, replace, resetScroll, disabled, onClick, children, ...rest }: LinkProps): ReactElement {
  const router = useRouter();
  // A link may keep words of the address it stands at, so it is written anew with each.
  useShown();
  const target: Target = {
    to,
    ...(params === undefined ? {} : { params }),
    ...(search === undefined ? {} : { search }),
    ...(hash === undefined ? {} : { hash }),
    ...(replace === undefined ? {} : { replace }),
    ...(resetScroll === undefined ? {} : { resetScroll }),
  };
  const click = (event: MouseEvent<HTMLAnchorElement>): void => {
    onClick?.(event);
    const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (isPlain && !event.defaultPrevented && (rest.target === undefined || rest.target === "_self")) {
      event.preventDefault();
      void router.navigate(target);
    }
  };
  const warm = useCallback(() => router.preload({ to, ...(params === undefined ? {} : { params }) }), [router, to, params]);
  return disabled === true ? (
    <span role="link" aria-disabled="true" className={rest.className} title={rest.title}>
      {children}
    </span>
  ) : (
    <a {...rest} href={router.hrefOf(target)} onClick={click} onPointerEnter={warm} onFocus={warm}>
      {children}
    </a>
  );
}
