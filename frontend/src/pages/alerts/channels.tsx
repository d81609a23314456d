/** Where alerts go, each with a button that sends an example. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, type FormEvent, type ReactElement } from "react";

import { addChannel, channelsQuery, removeChannel, testChannel, type AlertChannel } from "../../api/alerts";
import { shell } from "../../lib/yard-line";
import { ErrorCard, IconButton, Skeleton, YardLine } from "../../ui/parts";
import { complain, toast } from "../../ui/toast";

const KINDS = ["slack", "teams", "webhook", "email"] as const;

export function Channels(): ReactElement {
  const { data, error, refetch } = useQuery(channelsQuery());
  if (data === undefined) {
    return error === null ? (
      <Skeleton />
    ) : (
      <ErrorCard title="The channels could not be read" error={error} retry={() => void refetch()} />
    );
  }
  return (
    <>
      <NewChannel />
      <section className="card">
        <table className="plain">
          <thead>
            <tr>
              <th>Channel</th>
              <th>Kind</th>
              <th>Goes to</th>
              <th>For</th>
              <th aria-label="Actions" />
            </tr>
          </thead>
          <tbody>
            <tr>
              <td>inbox</td>
              <td>browser</td>
              <td className="muted">the bell above, and the browser where it was allowed</td>
              <td>everybody</td>
              <td />
            </tr>
            {data.map((channel) => (
              <Row key={channel.name + String(channel.is_all_teams)} channel={channel} />
            ))}
          </tbody>
        </table>
      </section>
    </>
  );
}

function Row({ channel }: { channel: AlertChannel }): ReactElement {
  const client = useQueryClient();
  const test = (): void => {
    testChannel(channel.name).then(
      (reply) => {
        void client.invalidateQueries({ queryKey: ["alerts"] });
        const fault = reply.error || String(reply.status);
        const said = reply.success ? "took the message" : `did not take it: ${fault}`;
        toast(`${channel.name} ${said}`, null, `yard alert test ${channel.name}`);
      },
      (error: unknown) => complain("The example was not sent", error),
    );
  };
  const remove = (): void => {
    removeChannel(channel.name).then(
      () => client.invalidateQueries({ queryKey: ["alerts"] }),
      (error: unknown) => complain("The channel was not removed", error),
    );
  };
  return (
    <tr>
      <td>{channel.name}</td>
      <td>{channel.kind}</td>
      <td className="muted">{channel.shown}</td>
      <td>{channel.is_all_teams ? "all teams" : "the team"}</td>
      <td>
        <span className="row">
          <button type="button" className="btn small" onClick={test}>
            Send a test
          </button>
          <IconButton icon="trash" label={`Remove ${channel.name}`} onClick={remove} />
        </span>
      </td>
    </tr>
  );
}

function NewChannel(): ReactElement {
  const [wish, setWish] = useState({ name: "", kind: "slack", target: "" });
  const [fault, setFault] = useState("");
  const client = useQueryClient();
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    addChannel(wish).then(
      () => {
        setWish({ name: "", kind: wish.kind, target: "" });
        setFault("");
        void client.invalidateQueries({ queryKey: ["alerts"] });
      },
      (error: unknown) => setFault(error instanceof Error ? error.message : String(error)),
    );
  };
  return (
    <section className="card card-text">
      <form className="row alert-form" onSubmit={submit}>
        <input
          aria-label="Name"
          placeholder="ops"
          value={wish.name}
          onChange={(event) => setWish({ ...wish, name: event.target.value })}
        />
        <select
          aria-label="Kind"
          value={wish.kind}
          onChange={(event) => setWish({ ...wish, kind: event.target.value })}
        >
          {KINDS.map((kind) => (
            <option key={kind}>{kind}</option>
          ))}
        </select>
        <input
          className="grow"
          aria-label="Address"
          placeholder={wish.kind === "email" ? "ada@example.org, bob@example.org" : "https://…"}
          value={wish.target}
          onChange={(event) => setWish({ ...wish, target: event.target.value })}
        />
        <button type="submit" className="btn primary" disabled={wish.name === "" || wish.target === ""}>
          Add channel
        </button>
      </form>
      {fault !== "" && (
        <p className="tone-red" role="alert">
          {fault}
        </p>
      )}
      <YardLine line={`yard alert channel add ${shell(wish.name === "" ? "ops" : wish.name)} --kind ${wish.kind}`} />
    </section>
  );
}
