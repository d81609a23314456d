/** The team's leases in a calendar program: a file at once, or a feed with a token of its own. */
import { useState, type ReactElement } from "react";

import { feedAddress, openFeed, type Feed } from "../../api/leases";
import { leaseLine } from "../../lib/lease-lines";
import { Icon } from "../../ui/icon";
import { Copy, YardLine } from "../../ui/parts";
import { complain } from "../../ui/toast";

export function FeedCard(): ReactElement {
  const [feed, setFeed] = useState<Feed | null>(null);
  const make = (): void => void openFeed().then(setFeed, (cause: unknown) => complain("The feed was not opened", cause));
  const address = window.location.origin + feedAddress().replace(/\?.*/, "");
  return (
    <section className="card" aria-label="Calendar feed">
      <div className="card-head">
        <h2>In your calendar program</h2>
        <span className="grow" />
        <a className="btn small" href={feedAddress()} download="leases.ics">
          <Icon name="download" />
          leases.ics
        </a>
        <button type="button" className="btn small" title={leaseLine.feed()} onClick={make}>
          <Icon name="link" />
          Make a feed
        </button>
      </div>
      {feed === null ? (
        <p className="muted row wrap" style={{ padding: "8px 12px", margin: 0 }}>
          A feed keeps the team&apos;s leases up to date there; its token opens nothing else. <code>{leaseLine.feed()}</code>
        </p>
      ) : (
        <div style={{ padding: 12 }} className="stack">
          <span>{feed.sentence} It is shown once.</span>
          <dl className="lease-facts">
            <dt>Address</dt>
            <dd className="row">
              <code className="clip">{address}</code>
              <Copy text={address} label="Copy the address" />
            </dd>
            <dt>User name</dt>
            <dd>
              <code>{feed.user}</code>
            </dd>
            <dt>Token</dt>
            <dd className="row">
              <code className="clip">{feed.token}</code>
              <Copy text={feed.token} label="Copy the token" />
            </dd>
          </dl>
          <YardLine line={`yard token revoke ${feed.id}`} />
        </div>
      )}
    </section>
  );
}
