/** Who is signed in, and for which team. Owns the session's state in this tab. */
import { holdSession, json } from "./client";
import type { components } from "./types.gen";

export type Session = components["schemas"]["SessionInfo"];

const TEAM_KEY = "yard.team";

function remembered(): string | null {
  try {
    return localStorage.getItem(TEAM_KEY);
  } catch {
    return null;
  }
}

function hold(session: Session): Session {
  holdSession({ csrf: session.csrf, team: session.team });
  return session;
}

/** The session of this browser; a fault with status 401 when there is none. */
export async function loadSession(): Promise<Session> {
  holdSession({ csrf: null, team: remembered() });
  try {
    return hold(await json<Session>("/api/v1/session"));
  } catch (cause) {
    if (remembered() === null) {
      throw cause;
    }
    // The team kept here may be gone, or not this user's: start from the user's own.
    localStorage.removeItem(TEAM_KEY);
    holdSession({ csrf: null, team: null });
    return hold(await json<Session>("/api/v1/session"));
  }
}

/** Sign in with a one-time code or a token. */
export async function signIn(wish: { code: string } | { token: string }): Promise<Session> {
  holdSession({ csrf: null, team: null });
  return hold(await json<Session>("/api/v1/session", { method: "POST", body: wish }));
}

/** End the session. */
export async function signOut(): Promise<void> {
  await json("/api/v1/session", { method: "DELETE" });
  holdSession({ csrf: null, team: null });
}

/** Look at another team from now on; the page starts afresh. */
export function switchTeam(team: string): void {
  localStorage.setItem(TEAM_KEY, team);
}
