/** Who is signed in, and for which team. Owns the session's state in this tab. */
import { BASE, dropAsked, Fault, holdSession, json } from "./client";
import { SESSION } from "./table-wish";
import { forgetTeam, rememberTeam, wantedTeam } from "./team";
import type { components } from "./types.gen";

export type Session = components["schemas"]["SessionInfo"];

function hold(session: Session): Session {
  holdSession({ csrf: session.csrf, team: session.team });
  return session;
}

/** The session of this browser; a fault with status 401 when there is none. */
export async function loadSession(): Promise<Session> {
  const wanted = wantedTeam();
  holdSession({ csrf: null, team: wanted });
  try {
    const session = hold(await json<Session>(SESSION));
    rememberTeam(session.team);
    return session;
  } catch (cause) {
    if (wanted === null || (cause instanceof Fault && cause.passing)) {
      throw cause;
    }
    // The team may be gone, or not this user's: start from the user's own.
    forgetTeam();
    dropAsked();
    holdSession({ csrf: null, team: null });
    return hold(await json<Session>(SESSION));
  }
}

/** Sign in with a one-time code or a token. */
export async function signIn(wish: { code: string } | { token: string }): Promise<Session> {
  holdSession({ csrf: null, team: null });
  return hold(await json<Session>("/api/v1/session", { method: "POST", body: wish }));
}

/** Whether people may sign in at an identity provider; no where the server does not say. */
export async function offersSignOn(): Promise<boolean> {
  try {
    return (await json<{ is_offered: boolean }>("/api/v1/oidc")).is_offered;
  } catch {
    return false;
  }
}

/** Where the way to that provider begins. */
export const SIGN_ON = `${BASE}/api/v1/oidc/start`;

/** End the session. */
export async function signOut(): Promise<void> {
  await json("/api/v1/session", { method: "DELETE" });
  holdSession({ csrf: null, team: null });
}

/** Look at another team from now on; the page starts afresh. */
export function switchTeam(team: string): void {
  rememberTeam(team);
}
