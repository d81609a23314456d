/** The terminal of a running job. Connects again by itself when the line is cut. */
import "@xterm/xterm/css/xterm.css";
import { FitAddon } from "@xterm/addon-fit";
import { Terminal as Emulator, type ITheme } from "@xterm/xterm";
import { useEffect, useRef, useState, type ReactElement } from "react";

import { BASE, currentTeam } from "../../api/client";

/** Codes of a closed line: the shell has ended; the session has. */
const ENDED = 1000;
const REFUSED = 1008;
const FIRST_PAUSE = 250;
const LAST_PAUSE = 5000;

type State = "connecting" | "open" | "cut" | "ended" | "refused";

const WORDS: Record<State, string> = {
  connecting: "Connecting …",
  open: "Connected",
  cut: "The line was cut; the shell lives on. Connecting again …",
  ended: "The shell has ended.",
  refused: "The session has ended; sign in again.",
};

function address(job: string, columns: number, rows: number): string {
  const query = new URLSearchParams({ columns: String(columns), rows: String(rows) });
  const team = currentTeam();
  if (team !== null) {
    query.set("team", team);
  }
  const origin = window.location.origin.replace(/^http/, "ws");
  return `${origin}${BASE}/api/v1/jobs/${encodeURIComponent(job)}/terminal?${query.toString()}`;
}

function theme(): ITheme {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string): string => style.getPropertyValue(name).trim();
  return {
    background: colour("--panel"),
    foreground: colour("--ink"),
    cursor: colour("--accent"),
    selectionBackground: colour("--line-strong"),
  };
}

/** One emulator and its line to the server, for as long as it is shown. */
class Session {
  private readonly emulator: Emulator;
  private readonly fit = new FitAddon();
  private readonly job: string;
  private readonly tell: (state: State) => void;
  private readonly watching: ResizeObserver;
  private line: WebSocket | null = null;
  private pause = FIRST_PAUSE;
  private timer = 0;
  private over = false;

  constructor(job: string, place: HTMLElement, tell: (state: State) => void) {
    this.job = job;
    this.tell = tell;
    const font = getComputedStyle(document.documentElement).getPropertyValue("--mono").trim();
    this.emulator = new Emulator({
      fontFamily: font,
      fontSize: 13,
      cursorBlink: true,
      scrollback: 10_000,
      // Programs choose colours for dark screens.
      minimumContrastRatio: 4.5,
      theme: theme(),
    });
    this.emulator.loadAddon(this.fit);
    this.emulator.open(place);
    this.fit.fit();
    this.emulator.onData((keys) => this.send(new TextEncoder().encode(keys)));
    this.emulator.onBinary((keys) => this.send(Uint8Array.from(keys, (letter) => letter.charCodeAt(0))));
    this.emulator.onResize(({ cols, rows }) => this.send(JSON.stringify({ columns: cols, rows })));
    this.watching = new ResizeObserver(() => this.fit.fit());
    this.watching.observe(place);
    this.emulator.focus();
    this.connect();
  }

  private send(data: string | Uint8Array<ArrayBuffer>): void {
    if (this.line?.readyState === WebSocket.OPEN) {
      this.line.send(data);
    }
  }

  private connect(): void {
    const line = new WebSocket(address(this.job, this.emulator.cols, this.emulator.rows));
    line.binaryType = "arraybuffer";
    this.line = line;
    line.addEventListener("open", () => {
      this.pause = FIRST_PAUSE;
      // What was printed lately comes again.
      this.emulator.reset();
      this.tell("open");
    });
    line.addEventListener("message", (event: MessageEvent<ArrayBuffer | string>) => {
      this.emulator.write(typeof event.data === "string" ? event.data : new Uint8Array(event.data));
    });
    line.addEventListener("close", (event) => this.closed(event.code));
  }

  private closed(code: number): void {
    if (this.over) {
      return;
    }
    if (code === ENDED || code === REFUSED) {
      this.tell(code === ENDED ? "ended" : "refused");
      return;
    }
    this.tell("cut");
    this.timer = window.setTimeout(() => this.connect(), this.pause);
    this.pause = Math.min(this.pause * 2, LAST_PAUSE);
  }

  end(): void {
    this.over = true;
    window.clearTimeout(this.timer);
    this.watching.disconnect();
    this.line?.close();
    this.emulator.dispose();
  }
}

export default function Terminal({ job }: { job: string }): ReactElement {
  const place = useRef<HTMLDivElement>(null);
  const [state, setState] = useState<State>("connecting");
  useEffect(() => {
    if (place.current === null) {
      return undefined;
    }
    const session = new Session(job, place.current, setState);
    return () => session.end();
  }, [job]);
  return (
    <section className="card terminal" aria-label="Terminal">
      <div className="card-head">
        <span className={state === "open" ? "tone-green" : "faint"} role="status">
          {WORDS[state]}
        </span>
      </div>
      <div ref={place} className="terminal-screen" />
    </section>
  );
}
