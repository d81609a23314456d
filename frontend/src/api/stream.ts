/** One live stream per tab. Owns the connection and resumption; tells listeners, knows no page. */
import { link } from "./client";

export interface LiveEvent {
  id: number;
  time_ms: number;
  actor: string;
  kind: string;
  subject: string;
  subject_id: string;
  data: Record<string, unknown>;
}

export interface PointsNotice {
  kind: "points";
  runs: string[];
}

export type Message = LiveEvent | PointsNotice;
export type Link = "connecting" | "live" | "lost";

/** Whether a message is the light notice of new points. */
export function isPoints(message: Message): message is PointsNotice {
  return message.kind === "points";
}

type Listener = (messages: Message[]) => void;

/** Time over which messages are gathered before listeners hear of them, in milliseconds. */
const GATHER = 250;

export class Stream {
  private source: EventSource | null = null;
  private readonly listeners = new Set<Listener>();
  private readonly linkListeners = new Set<() => void>();
  private readonly reloadListeners = new Set<() => void>();
  private waiting: Message[] = [];
  private timer: ReturnType<typeof setTimeout> | null = null;
  private last: string | null = null;
  private retry: ReturnType<typeof setTimeout> | null = null;
  private tries = 0;
  private wanted = false;
  state: Link = "connecting";

  /** Open the stream; it comes back by itself and misses nothing. */
  open(): void {
    this.wanted = true;
    this.source?.close();
    const source = new EventSource(link("/api/v1/stream", this.last === null ? {} : { since: this.last }));
    this.source = source;
    source.addEventListener("open", () => {
      const back = this.state === "lost";
      this.tries = 0;
      this.become("live");
      // Notices of points carry no id, so those of the time without a link are gone: read again.
      if (back) {
        this.reloadListeners.forEach((listener) => listener());
      }
    });
    source.addEventListener("message", (event) => this.take(event));
    source.addEventListener("reload", () => this.reloadListeners.forEach((listener) => listener()));
    source.addEventListener("error", () => this.failed(source));
  }

  /** Close the stream, for instance at sign-out. */
  close(): void {
    this.wanted = false;
    this.source?.close();
    this.source = null;
    this.last = null;
    if (this.retry !== null) {
      clearTimeout(this.retry);
    }
    this.become("connecting");
  }

  /** Hear messages, gathered a little; returns how to stop. */
  listen(listener: Listener): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Hear that everything should be read again. */
  onReload(listener: () => void): () => void {
    this.reloadListeners.add(listener);
    return () => this.reloadListeners.delete(listener);
  }

  /** Hear that the link came or went. */
  onLink(listener: () => void): () => void {
    this.linkListeners.add(listener);
    return () => this.linkListeners.delete(listener);
  }

  private failed(source: EventSource): void {
    if (source !== this.source || !this.wanted) {
      return;
    }
    source.close();
    this.become("lost");
    this.tries += 1;
    const wait = Math.min(8000, 500 * 2 ** Math.min(this.tries, 5));
    this.retry = setTimeout(() => this.wanted && this.open(), wait);
  }

  private become(state: Link): void {
    if (state !== this.state) {
      this.state = state;
      this.linkListeners.forEach((listener) => listener());
    }
  }

  private take(event: MessageEvent<string>): void {
    if (event.lastEventId !== "") {
      this.last = event.lastEventId;
    }
    try {
      this.waiting.push(JSON.parse(event.data) as Message);
    } catch {
      return;
    }
    this.timer ??= setTimeout(() => {
      this.timer = null;
      const messages = this.waiting;
      this.waiting = [];
      this.listeners.forEach((listener) => listener(messages));
    }, GATHER);
  }
}

/** The stream of this tab. */
export const stream = new Stream();
