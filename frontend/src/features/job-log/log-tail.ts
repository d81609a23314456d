/** Follows one log by offset: reads what is new, keeps it as lines, and resumes where it was. Knows no React. */
import { readLog } from "../../api/jobs";
import { LogText, startAt } from "../../lib/log-text";

export interface LogSource {
  job: string;
  attempt: number;
  rank: number;
  /** bytes known to be there, so that a long log is begun near its end */
  size: number;
}

export interface LogState {
  lines: readonly string[];
  /** bytes before the first line shown */
  before: number;
  dropped: number;
  loading: boolean;
  fault: string | null;
}

type Read = typeof readLog;

/** Milliseconds between two looks at a log that grows, and after a fault. */
const EVERY = 800;
const AFTER_FAULT = 4000;
/** How much is read at once when going back. */
const BACK = 512 * 1024;

export class LogTail {
  state: LogState = { lines: [], before: 0, dropped: 0, loading: true, fault: null };
  private text = new LogText();
  private readonly decoder = new TextDecoder();
  private offset: number;
  private before: number;
  private timer: ReturnType<typeof setTimeout> | null = null;
  /** counts starts, so that an answer to an earlier one is not taken for this */
  private turn = 0;
  private over = false;
  private readonly listeners = new Set<() => void>();
  private readonly source: LogSource;
  private readonly read: Read;

  constructor(source: LogSource, read: Read = readLog) {
    this.source = source;
    this.read = read;
    this.offset = startAt(source.size);
    this.before = this.offset;
  }

  /** Begin, or go on, to read. */
  start(): void {
    this.turn += 1;
    void this.look(this.turn);
  }

  /** Be told of new lines; returns how to stop. */
  listen(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Say that the attempt is over: what is there now is all there will be. */
  end(): void {
    this.over = true;
  }

  /** Stop reading; what is here stays. */
  close(): void {
    this.turn += 1;
    if (this.timer !== null) {
      clearTimeout(this.timer);
    }
  }

  /** Read the stretch before what is shown. */
  async earlier(): Promise<void> {
    const from = Math.max(0, this.before - BACK);
    const { job, attempt, rank } = this.source;
    try {
      const data = await this.read(job, { attempt, rank, offset: from, limit: this.before - from });
      this.text.prepend(new TextDecoder().decode(data));
      this.before = from;
      this.tell(null);
    } catch (cause) {
      this.tell(cause instanceof Error ? cause.message : String(cause));
    }
  }

  private async look(turn: number): Promise<void> {
    const { job, attempt, rank } = this.source;
    const last = this.over;
    try {
      const data = await this.read(job, { attempt, rank, offset: this.offset });
      if (turn !== this.turn) {
        return;
      }
      this.offset += data.byteLength;
      if (data.byteLength > 0) {
        this.text.append(this.decoder.decode(data, { stream: true }));
      }
      if (data.byteLength > 0 || this.state.loading || this.state.fault !== null) {
        this.tell(null);
      }
      if (data.byteLength > 0) {
        this.again(data.byteLength > 200_000 ? 0 : EVERY);
      } else if (!last) {
        this.again(EVERY);
      }
    } catch (cause) {
      if (turn === this.turn) {
        this.tell(cause instanceof Error ? cause.message : String(cause));
        this.again(AFTER_FAULT);
      }
    }
  }

  private again(wait: number): void {
    this.timer = setTimeout(() => void this.look(this.turn), wait);
  }

  private tell(fault: string | null): void {
    this.state = { lines: this.text.lines, before: this.before, dropped: this.text.dropped, loading: false, fault };
    this.listeners.forEach((listener) => listener());
  }
}
