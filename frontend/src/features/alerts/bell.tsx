/** The bell: unread alerts and mentions, and the browser's own notices of them where it was allowed. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useEffect, useRef, type ReactElement } from "react";

import { inboxQuery, readInbox, type Inbox } from "../../api/alerts";
import { freshLines } from "../../lib/alert-words";
import { MenuButton, MenuItem } from "../../ui/menu";
import { Ago } from "../../ui/parts";
import { complain } from "../../ui/toast";

const SHOWN = 12;

export function Bell(): ReactElement {
  const { data } = useQuery(inboxQuery());
  const client = useQueryClient();
  const navigate = useNavigate();
  useNotices(data, (link) => void navigate({ href: link }));
  const unread = data?.unread ?? 0;
  const lines = data?.lines.slice(0, SHOWN) ?? [];
  const markRead = (): void => {
    const newest = lines[0]?.id;
    if (newest !== undefined) {
      readInbox(newest).then(
        (next) => client.setQueryData(inboxQuery().queryKey, next),
        (error: unknown) => complain("The inbox could not be marked as read", error),
      );
    }
  };
  return (
    <MenuButton
      name={unread === 0 ? "Inbox" : `Inbox, ${unread} unread`}
      label={unread === 0 ? "" : <b className="tone-amber">{unread}</b>}
      icon="bell"
      quiet
      caret={false}
    >
      {(close) => (
        <div className="inbox">
          <div className="menu-head">Inbox</div>
          {lines.length === 0 && <p className="faint inbox-line">Nothing yet. Alerts and mentions of you come here.</p>}
          {lines.map((line) => (
            <Link key={line.id} to={line.link} className={`inbox-line${line.is_read ? " faint" : ""}`} onClick={close}>
              <span>{line.title}</span>
              <span className="faint">
                <Ago ms={line.created_ms} />
              </span>
            </Link>
          ))}
          <hr />
          {unread > 0 && (
            <MenuItem
              icon="tick"
              onClick={() => {
                close();
                markRead();
              }}
            >
              Mark all as read
            </MenuItem>
          )}
          {canAsk() && (
            <MenuItem icon="bell" onClick={() => void Notification.requestPermission().then(close)}>
              Notify me in this browser
            </MenuItem>
          )}
          <MenuItem
            icon="warn"
            onClick={() => {
              close();
              void navigate({ to: "/app/alerts", search: {} });
            }}
          >
            All alerts
          </MenuItem>
        </div>
      )}
    </MenuButton>
  );
}

const canAsk = (): boolean => "Notification" in window && Notification.permission === "default";

/** Tell of each new line once, whichever tab sees it first. */
function useNotices(inbox: Inbox | undefined, open: (link: string) => void): void {
  const seen = useRef<number | null>(null);
  const go = useRef(open);
  useEffect(() => {
    go.current = open;
  });
  useEffect(() => {
    if (inbox === undefined) {
      return;
    }
    const newest = inbox.lines[0]?.id ?? 0;
    const before = seen.current;
    seen.current = Math.max(newest, before ?? 0);
    if (before === null || !("Notification" in window) || Notification.permission !== "granted") {
      return;
    }
    for (const line of freshLines(inbox.lines, before)) {
      const notice = new Notification("Trackyard", { body: line.title, tag: `yard-inbox-${line.id}` });
      notice.addEventListener("click", () => {
        window.focus();
        go.current(line.link);
      });
    }
  }, [inbox]);
}
