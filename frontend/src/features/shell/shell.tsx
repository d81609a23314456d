/** The frame around every page: rail, bar, live stream, keys. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, Outlet, useLocation, useNavigate, useSearch } from "@tanstack/react-router";
import { lazy, Suspense, useEffect, useState, useSyncExternalStore, type ReactElement } from "react";

import { Fault, onSignedOut } from "../../api/client";
import { signOut, switchTeam, type Session } from "../../api/session";
import { stream } from "../../api/stream";
import { Brand, Icon, type IconName } from "../../ui/icon";
import { MenuButton, MenuItem } from "../../ui/menu";
import { ErrorCard, Skeleton } from "../../ui/parts";
import { toast } from "../../ui/toast";
import { setTheme, useTheme, type Theme } from "../../ui/theme";
import { Bell } from "../alerts/bell";
import { useKeys } from "./keys";
import { RunningCount } from "./running-count";
import { sessionQuery } from "./session-query";

const loadPalette = () => import("./palette");
const Palette = lazy(async () => ({ default: (await loadPalette()).Palette }));
const KeysHelp = lazy(async () => ({ default: (await import("./keys-help")).KeysHelp }));

/** The places of the rail. What the platform gains, it gains here. */
export const PLACES: readonly { to: string; word: string; icon: IconName; key: string }[] = [
  { to: "/app/home", word: "Home", icon: "home", key: "h" },
  { to: "/app/experiments", word: "Experiments", icon: "experiments", key: "e" },
  { to: "/app/runs", word: "Runs", icon: "runs", key: "r" },
  { to: "/app/models", word: "Models", icon: "models", key: "m" },
  { to: "/app/reports", word: "Reports", icon: "report", key: "o" },
  { to: "/app/data", word: "Data", icon: "data", key: "d" },
  { to: "/app/queue", word: "Queue", icon: "queue", key: "q" },
  { to: "/app/sweeps", word: "Sweeps", icon: "sliders", key: "w" },
  { to: "/app/plan", word: "Plan", icon: "gauge", key: "p" },
  { to: "/app/nodes", word: "Nodes", icon: "nodes", key: "n" },
  { to: "/app/leases", word: "Leases", icon: "calendar", key: "s" },
  { to: "/app/usage", word: "Usage", icon: "usage", key: "u" },
  { to: "/app/logbook", word: "Logbook", icon: "edit", key: "b" },
  { to: "/app/alerts", word: "Alerts", icon: "bell", key: "a" },
  { to: "/app/log", word: "Log", icon: "log", key: "l" },
  { to: "/app/settings", word: "Settings", icon: "sliders", key: "," },
];

/** The frame; it asks for a sign-in where there is none. */
export function Shell(): ReactElement {
  const session = useQuery(sessionQuery);
  const navigate = useNavigate();
  const client = useQueryClient();
  const signedOut = session.error instanceof Fault && session.error.status === 401;
  useEffect(() => {
    const leave = (): void => {
      // Who is asked already is not sent there again, whatever else answers that nobody is signed in.
      if (window.location.pathname.endsWith("/signin")) {
        return;
      }
      stream.close();
      client.removeQueries();
      const next = window.location.pathname + window.location.search;
      void navigate({ href: `/signin?next=${encodeURIComponent(next)}`, replace: true });
    };
    onSignedOut(leave);
    if (signedOut) {
      leave();
    }
  }, [signedOut, navigate, client]);
  if (session.data === undefined) {
    return session.error !== null && !signedOut ? (
      <div className="empty">
        <ErrorCard title="The server cannot be reached" error={session.error} retry={() => void session.refetch()} />
        <p className="muted">This page tries again by itself.</p>
      </div>
    ) : (
      <Skeleton />
    );
  }
  return <Frame session={session.data} />;
}

function Frame({ session }: { session: Session }): ReactElement {
  const [palette, setPalette] = useState(false);
  const [help, setHelp] = useState(false);
  const [narrow, setNarrow] = useState(() => localStorage.getItem("yard.rail") === "narrow");
  useEffect(() => {
    stream.open();
    return () => stream.close();
  }, []);
  useTeamInAddress(session);
  useKeys({ onPalette: () => setPalette(true), onHelp: () => setHelp(true) });
  const fold = (): void => {
    localStorage.setItem("yard.rail", narrow ? "wide" : "narrow");
    setNarrow(!narrow);
  };
  return (
    <div className={`frame${narrow ? " narrow" : ""}`}>
      <a className="skip" href="#page">
        Skip to the page
      </a>
      <Rail narrow={narrow} onFold={fold} />
      <header className="bar">
        <TeamMenu session={session} />
        <button type="button" className="jump" title="Search or jump" aria-keyshortcuts="Control+K" onPointerEnter={() => void loadPalette()} onClick={() => setPalette(true)}>
          <Icon name="search" />
          <span className="grow">Search or jump</span>
          <kbd>Ctrl K</kbd>
        </button>
        <div className="grow" />
        <RunningCount />
        <Bell />
        <ThemeMenu />
        <UserMenu session={session} onHelp={() => setHelp(true)} />
      </header>
      <LinkBar />
      <main id="page" className="page" tabIndex={-1}>
        <Suspense fallback={<Skeleton />}>
          <Outlet />
        </Suspense>
      </main>
      <Suspense fallback={null}>
        {palette && <Palette onClose={() => setPalette(false)} />}
        {help && <KeysHelp onClose={() => setHelp(false)} />}
      </Suspense>
    </div>
  );
}

/** Keep the team in the address where there is more than one, so that a copied link opens for others. */
function useTeamInAddress(session: Session): void {
  const navigate = useNavigate();
  const named = useSearch({ from: "/app" }).team;
  const wanted = session.teams.length > 1 ? session.team : undefined;
  useEffect(() => {
    if (named !== wanted) {
      if (named !== undefined && wanted !== undefined) {
        toast(`You are not in team ${named}. This is team ${wanted}.`);
      }
      void navigate({ to: ".", search: (now: Record<string, unknown>) => ({ ...now, team: wanted }), hash: true, replace: true, resetScroll: false });
    }
  }, [named, wanted, navigate]);
}

/** Whether a page lies at a place or below it; the app itself may lie below a path of its own. */
const isAt = (pathname: string, to: string): boolean => pathname.endsWith(to) || pathname.includes(`${to}/`);

function Rail({ narrow, onFold }: { narrow: boolean; onFold: () => void }): ReactElement {
  const { pathname } = useLocation();
  return (
    <nav className="rail" aria-label="Places">
      <Link to="/app/home" className="brand" title="Trackyard">
        <Brand />
        <span className="rail-word">Trackyard</span>
      </Link>
      {PLACES.map(({ to, word, icon }) => (
        <Link
          key={to}
          to={to}
          className="rail-item"
          title={word}
          aria-current={isAt(pathname, to) ? "page" : undefined}
        >
          <Icon name={icon} />
          <span className="rail-word">{word}</span>
        </Link>
      ))}
      <div className="grow" />
      <button type="button" className="rail-item fold" onClick={onFold} title={narrow ? "Expand the sidebar" : "Collapse the sidebar"}>
        <Icon name={narrow ? "right" : "columns"} />
        <span className="rail-word">Collapse</span>
      </button>
    </nav>
  );
}

function LinkBar(): ReactElement | null {
  const state = useSyncExternalStore(
    (listener) => stream.onLink(listener),
    () => stream.state,
  );
  return state === "lost" ? (
    <div className="link-bar" role="status">
      <Icon name="refresh" />
      The connection to the server is lost. What you see stays; it catches up by itself.
    </div>
  ) : null;
}

function TeamMenu({ session }: { session: Session }): ReactElement {
  return (
    <MenuButton name={`Team ${session.team}`} label={<b>{session.team}</b>} quiet>
      {() => (
        <>
          <div className="menu-head">Team</div>
          {session.teams.map(({ name, role }) => (
            <MenuItem
              key={name}
              checked={name === session.team}
              onClick={() => {
                switchTeam(name);
                // Ids of one team mean nothing in another, so the page starts afresh at its home.
                window.location.assign(`${window.location.pathname.replace(/\/app\/.*/, "/app/home")}?team=${encodeURIComponent(name)}`);
              }}
            >
              <span className="grow">{name}</span>
              <span className="faint">{role}</span>
            </MenuItem>
          ))}
        </>
      )}
    </MenuButton>
  );
}

const THEMES: readonly [Theme, string][] = [
  ["system", "Same as the system"],
  ["light", "Light"],
  ["dark", "Dark"],
];

function ThemeMenu(): ReactElement {
  const theme = useTheme();
  return (
    <MenuButton name="Light or dark" label="" icon={theme === "dark" ? "moon" : "sun"} quiet caret={false}>
      {(close) =>
        THEMES.map(([value, word]) => (
          <MenuItem
            key={value}
            checked={value === theme}
            onClick={() => {
              setTheme(value);
              close();
            }}
          >
            {word}
          </MenuItem>
        ))
      }
    </MenuButton>
  );
}

function UserMenu({ session, onHelp }: { session: Session; onHelp: () => void }): ReactElement {
  const leave = async (): Promise<void> => {
    await signOut().catch(() => undefined);
    window.location.assign(window.location.pathname.replace(/\/app\/.*/, "/signin"));
  };
  return (
    <MenuButton name="You" label="" icon="user" quiet caret={false}>
      {(close) => (
        <>
          <div className="menu-head">
            {session.user} · {session.role}
          </div>
          <MenuItem
            icon="help"
            onClick={() => {
              close();
              onHelp();
            }}
          >
            Keys
          </MenuItem>
          <MenuItem icon="out" onClick={() => void leave()}>
            Sign out
          </MenuItem>
          <hr />
          <div className="menu-head">Trackyard {session.version}</div>
        </>
      )}
    </MenuButton>
  );
}
