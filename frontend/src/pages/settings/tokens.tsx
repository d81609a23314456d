/** Access tokens: make, list, revoke. A token's text is shown once. */
import { useQuery } from "@tanstack/react-query";
import { useState, type ReactElement } from "react";

import { makeToken, membersQuery, revokeToken, ROLES, tokensQuery, type MadeToken, type Token } from "../../api/settings";
import type { Session } from "../../api/session";
import { exportLines } from "../../features/teach/no-runs";
import { exact } from "../../lib/format";
import { shell } from "../../lib/yard-line";
import { Icon } from "../../ui/icon";
import { Dialog } from "../../ui/menu";
import { Ago, Copy, ErrorCard, Skeleton, useNow } from "../../ui/parts";
import { Choice, FormDialog, Part, Text, useDo } from "./parts";

export function TokensPart({ session }: { session: Session }): ReactElement {
  const tokens = useQuery(tokensQuery());
  const [asking, setAsking] = useState(false);
  const [made, setMade] = useState<MadeToken | null>(null);
  const [ending, setEnding] = useState<Token | null>(null);
  const [all, setAll] = useState(false);
  const now = useNow(60_000);
  const isLive = (token: Token): boolean => token.revoked_ms === null && (token.expires_ms === null || token.expires_ms > now);
  const found = tokens.data ?? [];
  const shown = all ? found : found.filter(isLive);
  const isOwner = session.is_admin || session.role === "owner";
  return (
    <Part
      title="Tokens"
      about={isOwner ? `of everyone in team ${session.team}` : `yours, in team ${session.team}`}
      actions={
        <>
          {found.length > 0 && (
            <label className="row faint">
              <input type="checkbox" checked={all} onChange={(event) => setAll(event.target.checked)} />
              Include expired and revoked
            </label>
          )}
          <button type="button" className="btn small primary" onClick={() => setAsking(true)}>
            <Icon name="plus" />
            New token
          </button>
        </>
      }
    >
      {tokens.error !== null && <ErrorCard title="The tokens could not be read" error={tokens.error} retry={() => void tokens.refetch()} />}
      {tokens.data === undefined ? (
        <Skeleton rows={3} />
      ) : shown.length === 0 ? (
        <p className="faint settings-empty">No active tokens. Training scripts and the command line need one.</p>
      ) : (
        <div className="settings-scroll">
          <table className="plain">
            <thead>
              <tr>
                <th>What for</th>
                <th>User</th>
                <th>Role</th>
                <th>Last used</th>
                <th>Expires</th>
                <th>
                  <span className="sr-only">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {shown.map((token) => (
                <tr key={token.id} className={isLive(token) ? "" : "muted"}>
                  <td>
                    {token.label === "" ? <span className="faint">no label</span> : token.label} <code className="faint">{token.id}</code>
                  </td>
                  <td>{token.user}</td>
                  <td>{token.role}</td>
                  <td className="nowrap">{token.used_ms === null ? <span className="faint">never</span> : <Ago ms={token.used_ms} />}</td>
                  <td className="nowrap">
                    {token.revoked_ms !== null ? "revoked" : token.expires_ms === null ? "never" : <span title={exact(token.expires_ms)}>{new Date(token.expires_ms).toLocaleDateString()}</span>}
                  </td>
                  <td className="num">
                    {isLive(token) && (
                      <button type="button" className="btn quiet small" aria-label={`Revoke ${token.label === "" ? token.id : token.label}`} onClick={() => setEnding(token)}>
                        Revoke
                      </button>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {asking && (
        <NewToken
          session={session}
          isOwner={isOwner}
          onClose={() => setAsking(false)}
          onMade={(token) => {
            setAsking(false);
            setMade(token);
          }}
        />
      )}
      {made !== null && <MadeDialog made={made} onClose={() => setMade(null)} />}
      {ending !== null && <Revoke token={ending} onClose={() => setEnding(null)} />}
    </Part>
  );
}

const LIVES = [
  ["7", "7 days"],
  ["30", "30 days"],
  ["90", "90 days"],
  ["365", "1 year"],
  ["", "no end"],
] as const;

function NewToken(props: { session: Session; isOwner: boolean; onClose: () => void; onMade: (made: MadeToken) => void }): ReactElement {
  const { session } = props;
  const members = useQuery({ ...membersQuery(), enabled: props.isOwner });
  const act = useDo();
  const [label, setLabel] = useState("");
  const [role, setRole] = useState<string>(session.role === "viewer" ? "viewer" : "member");
  const [user, setUser] = useState(session.user);
  const [days, setDays] = useState("90");
  const own = ROLES.indexOf(session.role as "owner");
  const roles = session.is_admin ? ROLES : ROLES.slice(0, own + 1);
  const names = [...new Set([session.user, ...(members.data ?? []).map((one) => one.user)])];
  const line = [
    "yard token create",
    ...(label === "" ? [] : ["--label", shell(label)]),
    ...(role === "member" ? [] : ["--role", role]),
    ...(user === session.user ? [] : ["--user", shell(user)]),
    ...(days === "90" ? [] : ["--days", days === "" ? "0" : days]),
  ].join(" ");
  const make = async (): Promise<void> => {
    const made = await makeToken({ label, role, user, days: days === "" ? null : Number(days) });
    await act(Promise.resolve(), `Created a token for ${user}`);
    props.onMade(made);
  };
  return (
    <FormDialog title="New token" verb="Create token" line={line} onClose={props.onClose} onSubmit={make}>
      <Text label="What it is for" value={label} onChange={setLabel} hint="laptop, CI, nightly training" />
      {props.isOwner && <Choice label="User" value={user} options={names.map((name) => [name, name] as const)} onChange={setUser} />}
      <Choice label="Role" value={role} options={roles.map((one) => [one as string, one] as const)} onChange={setRole} />
      <Choice label="Expires after" value={days} options={LIVES} onChange={setDays} />
    </FormDialog>
  );
}

function MadeDialog({ made, onClose }: { made: MadeToken; onClose: () => void }): ReactElement {
  const lines = exportLines(window.location.origin, made.token);
  return (
    <Dialog title="Your new token" onClose={onClose}>
      <div className="stack">
        <p>Copy it now: it is shown this once and cannot be read again.</p>
        <div className="yard-line">
          <code aria-label="Token">{made.token}</code>
          <Copy text={made.token} label="Copy the token" />
        </div>
        <p className="muted">For MLflow clients:</p>
        <div className="yard-line">
          <code>{lines}</code>
          <Copy text={lines} label="Copy both lines" />
        </div>
        <div className="row" style={{ justifyContent: "flex-end" }}>
          <button type="button" className="btn primary" onClick={onClose}>
            Done
          </button>
        </div>
      </div>
    </Dialog>
  );
}

function Revoke({ token, onClose }: { token: Token; onClose: () => void }): ReactElement {
  const act = useDo();
  const line = `yard token revoke ${token.id}`;
  const end = async (): Promise<void> => {
    await act(revokeToken(token.id), "Revoked the token", line);
    onClose();
  };
  return (
    <FormDialog title="Revoke this token?" verb="Revoke" danger line={line} onClose={onClose} onSubmit={end}>
      <p>
        <b>{token.label === "" ? token.id : token.label}</b> of {token.user} stops working at once, and so does every token and session that was made with it. This
        cannot be undone.
      </p>
    </FormDialog>
  );
}
