/** Members of the team with their roles; for admins, all users of the platform. */
import { useQuery } from "@tanstack/react-query";
import { useState, type ReactElement } from "react";

import { makeUser, membersQuery, removeMember, ROLES, setDisabled, setMember, usersQuery, type Member, type Person } from "../../api/settings";
import type { Session } from "../../api/session";
import { shell } from "../../lib/yard-line";
import { Icon } from "../../ui/icon";
import { Ago, ErrorCard, Skeleton } from "../../ui/parts";
import { complain } from "../../ui/toast";
import { Choice, FormDialog, Part, Text, useDo } from "./parts";

const WORDS: Record<string, string> = {
  viewer: "viewer: reads",
  member: "member: logs, submits",
  maintainer: "maintainer: manages others' jobs",
  owner: "owner: manages members",
};
const CHOICES = ROLES.map((role) => [role as string, role] as const);
const LONG = ROLES.map((role) => [role as string, WORDS[role] ?? role] as const);

export function MembersPart({ session }: { session: Session }): ReactElement {
  const members = useQuery(membersQuery());
  const act = useDo();
  const [adding, setAdding] = useState(false);
  const [leaving, setLeaving] = useState<Member | null>(null);
  const manages = session.is_admin || session.role === "owner";
  const { team } = session;
  const change = (user: string, role: string): void =>
    void act(setMember(team, user, role), `${user} is ${role} of ${team} now`, `yard team member ${shell(team)} ${shell(user)} --role ${role}`).catch(
      (cause: unknown) => complain("The role was not changed", cause),
    );
  return (
    <Part
      title={`Members of ${team}`}
      about={manages ? "" : "owners change them"}
      actions={
        manages && (
          <button type="button" className="btn small primary" onClick={() => setAdding(true)}>
            <Icon name="plus" />
            Add member
          </button>
        )
      }
    >
      {members.error !== null && <ErrorCard title="The members could not be read" error={members.error} retry={() => void members.refetch()} />}
      {members.data === undefined ? (
        <Skeleton rows={3} />
      ) : (
        <div className="settings-scroll">
          <table className="plain">
            <thead>
              <tr>
                <th>User</th>
                <th>Role</th>
                <th>
                  <span className="sr-only">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {members.data.map((member) => (
                <tr key={member.user}>
                  <td>
                    {member.user} {member.is_admin && <span className="chip">platform admin</span>}
                  </td>
                  <td>
                    {manages ? (
                      <Choice hidden label={`Role of ${member.user}`} value={member.role} options={CHOICES} onChange={(role) => change(member.user, role)} />
                    ) : (
                      member.role
                    )}
                  </td>
                  <td className="num">
                    {manages && (
                      <button type="button" className="btn quiet small" aria-label={`Remove ${member.user}`} onClick={() => setLeaving(member)}>
                        Remove
                      </button>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {adding && <AddMember session={session} onClose={() => setAdding(false)} />}
      {leaving !== null && (
        <FormDialog
          title={`Remove ${leaving.user} from ${team}?`}
          verb="Remove"
          danger
          line={`yard team remove ${shell(team)} ${shell(leaving.user)}`}
          onClose={() => setLeaving(null)}
          onSubmit={async () => {
            await act(removeMember(team, leaving.user), `Removed ${leaving.user} from ${team}`);
            setLeaving(null);
          }}
        >
          <p>They can no longer see the team&apos;s runs and jobs. What they made stays; adding them again gives it back.</p>
        </FormDialog>
      )}
    </Part>
  );
}

function AddMember({ session, onClose }: { session: Session; onClose: () => void }): ReactElement {
  const users = useQuery({ ...usersQuery(), enabled: session.is_admin });
  const act = useDo();
  const [user, setUser] = useState("");
  const [role, setRole] = useState("member");
  const known = (users.data ?? []).filter((one) => !(session.team in one.teams)).map((one) => one.name);
  const isNew = session.is_admin && users.data !== undefined && user !== "" && !users.data.some((one) => one.name === user);
  const add = async (): Promise<void> => {
    if (isNew) {
      await makeUser(user, false);
    }
    await act(setMember(session.team, user, role), `Added ${user} to ${session.team}`);
    onClose();
  };
  const line = isNew
    ? `yard user add ${shell(user)} --team ${shell(session.team)} --role ${role}`
    : `yard team member ${shell(session.team)} ${shell(user === "" ? "NAME" : user)} --role ${role}`;
  return (
    <FormDialog title={`Add a member to ${session.team}`} verb={isNew ? "Create and add" : "Add"} line={line} disabled={user.trim() === ""} onClose={onClose} onSubmit={add}>
      <Text label="User" value={user} onChange={setUser} options={known} help={isNew ? "There is no such user yet; one is created." : "A user's name on this server."} />
      <Choice label="Role" value={role} options={LONG} onChange={setRole} />
    </FormDialog>
  );
}

/** All users, for platform admins. */
export function UsersPart({ session }: { session: Session }): ReactElement {
  const users = useQuery(usersQuery());
  const act = useDo();
  const [adding, setAdding] = useState(false);
  const [shutting, setShutting] = useState<Person | null>(null);
  const [name, setName] = useState("");
  const [isAdmin, setIsAdmin] = useState(false);
  const enable = (user: string): void =>
    void act(setDisabled(user, false), `${user} may sign in again`, `yard user enable ${shell(user)}`).catch((cause: unknown) => complain("The user was not enabled", cause));
  return (
    <Part
      title="Users"
      about="everyone on this server"
      actions={
        <button type="button" className="btn small" onClick={() => setAdding(true)}>
          <Icon name="plus" />
          New user
        </button>
      }
    >
      {users.error !== null && <ErrorCard title="The users could not be read" error={users.error} retry={() => void users.refetch()} />}
      {users.data === undefined ? (
        <Skeleton rows={3} />
      ) : (
        <div className="settings-scroll">
          <table className="plain">
            <thead>
              <tr>
                <th>User</th>
                <th>Teams</th>
                <th>Created</th>
                <th>
                  <span className="sr-only">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {users.data.map((user) => (
                <tr key={user.name} className={user.disabled ? "muted" : ""}>
                  <td>
                    {user.name} {user.is_admin && <span className="chip">platform admin</span>} {user.disabled && <span className="chip">disabled</span>}
                  </td>
                  <td>
                    {Object.entries(user.teams)
                      .map(([team, role]) => `${team} (${role})`)
                      .join(", ")}
                  </td>
                  <td className="nowrap">
                    <Ago ms={user.created_ms} />
                  </td>
                  <td className="num">
                    {user.name !== session.user && (
                      <button
                        type="button"
                        className="btn quiet small"
                        aria-label={`${user.disabled ? "Enable" : "Disable"} ${user.name}`}
                        onClick={() => (user.disabled ? enable(user.name) : setShutting(user))}
                      >
                        {user.disabled ? "Enable" : "Disable"}
                      </button>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {adding && (
        <FormDialog
          title="New user"
          verb="Create user"
          disabled={name.trim() === ""}
          line={`yard user add ${shell(name === "" ? "NAME" : name)}${isAdmin ? " --admin" : ""}`}
          onClose={() => setAdding(false)}
          onSubmit={async () => {
            await act(makeUser(name, isAdmin), `Created ${name}`);
            setAdding(false);
            setName("");
          }}
        >
          <Text label="Name" value={name} onChange={setName} help="Put them into a team next: without one they see nothing." />
          <label className="row">
            <input type="checkbox" checked={isAdmin} onChange={(event) => setIsAdmin(event.target.checked)} />
            Platform admin
          </label>
        </FormDialog>
      )}
      {shutting !== null && (
        <FormDialog
          title={`Disable ${shutting.name}?`}
          verb="Disable"
          danger
          line={`yard user disable ${shell(shutting.name)}`}
          onClose={() => setShutting(null)}
          onSubmit={async () => {
            await act(setDisabled(shutting.name, true), `Disabled ${shutting.name}`);
            setShutting(null);
          }}
        >
          <p>Their tokens and sessions stop working at once. Their runs and jobs stay. You can enable them again.</p>
        </FormDialog>
      )}
    </Part>
  );
}
