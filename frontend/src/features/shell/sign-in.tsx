/** Sign-in: by the one-time address that `yard up` prints, by a token, or at an identity provider. */
import { useNavigate } from "@tanstack/react-router";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState, type FormEvent, type ReactElement } from "react";

import { offersSignOn, SIGN_ON, signIn } from "../../api/session";
import { parseQuery } from "../../lib/address";
import { Brand } from "../../ui/icon";
import { ErrorCard, YardLine } from "../../ui/parts";

/** Take the one-time code out of the address, so that it stays in no history. */
export function takeCode(where: Location, history: History): string | null {
  const code = parseQuery(where.hash.slice(1)).code ?? null;
  if (code !== null) {
    history.replaceState(history.state, "", where.pathname + where.search);
  }
  return code;
}

/** Where to go after signing in: a page of ours, or home. */
export function afterSignIn(search: string): string {
  const next = parseQuery(search).next ?? "";
  return next.startsWith("/app/") ? next : "/app/home";
}

type Wish = { code: string } | { token: string };

export function SignIn(): ReactElement {
  const navigate = useNavigate();
  const client = useQueryClient();
  const signOn = useQuery({ queryKey: ["sign-on"], queryFn: offersSignOn, staleTime: Infinity });
  const [token, setToken] = useState("");
  const [busy, setBusy] = useState(false);
  const [fault, setFault] = useState<unknown>(null);
  const enter = async (wish: Wish): Promise<void> => {
    setBusy(true);
    setFault(null);
    try {
      client.setQueryData(["session"], await signIn(wish));
      await navigate({ href: afterSignIn(window.location.search), replace: true });
    } catch (cause) {
      setFault(cause);
    } finally {
      setBusy(false);
    }
  };
  const enterRef = useRef(enter);
  useEffect(() => {
    enterRef.current = enter;
  });
  useEffect(() => {
    const tryCode = (): void => {
      const code = takeCode(window.location, window.history);
      if (code !== null) {
        void enterRef.current({ code });
      }
    };
    tryCode();
    // Who pastes the address while this page is open changes the part behind # alone.
    window.addEventListener("hashchange", tryCode);
    return () => window.removeEventListener("hashchange", tryCode);
  }, []);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    void enter({ token: token.trim() });
  };
  return (
    <main className="sign-in">
      <form className="card sign-in-card" onSubmit={submit}>
        <div className="row brand">
          <Brand />
          Trackyard
        </div>
        <h1>Sign in</h1>
        {fault !== null && <ErrorCard title="That did not work" error={fault} />}
        {signOn.data === true && (
          <a className="btn primary" href={SIGN_ON}>
            Single sign-on
          </a>
        )}
        <label className="label">
          Token
          <input
            className="field"
            type="password"
            autoComplete="current-password"
            value={token}
            onChange={(event) => setToken(event.target.value)}
            placeholder="yard_…"
          />
        </label>
        <button className="btn primary" type="submit" disabled={busy || token.trim() === ""}>
          {busy ? "Signing in…" : "Sign in"}
        </button>
        <p className="muted">Or open the one-time address that the server prints; this makes a new one:</p>
        <YardLine line="yard login --browser" />
      </form>
    </main>
  );
}
