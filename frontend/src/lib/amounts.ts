/** Amounts as people write them: `2h30m`, `64G`, `K=V`, a command line. Pure; says back what it reads. */

const UNITS: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86_400, w: 604_800 };
const POWERS: Record<string, number> = { K: 1, M: 2, G: 3, T: 4 };

/** Seconds in `90s`, `45m`, `2h30m`, `1d` or `12:00:00`; null where it is no length of time. */
export function readTime(text: string): number | null {
  const written = text.trim().toLowerCase();
  const clock = /^(?:(\d+)-)?(\d+):([0-5]\d):([0-5]\d)$/.exec(written);
  if (clock !== null) {
    const [days, hours, minutes, seconds] = clock.slice(1).map((part) => Number(part ?? 0));
    return (days ?? 0) * 86_400 + (hours ?? 0) * 3600 + (minutes ?? 0) * 60 + (seconds ?? 0);
  }
  if (!/^(\d+(\.\d+)?[smhdw])+$/.test(written)) {
    return null;
  }
  return [...written.matchAll(/(\d+(?:\.\d+)?)([smhdw])/g)].reduce((sum, [, count, unit]) => sum + Number(count) * (UNITS[unit ?? "s"] ?? 1), 0);
}

/** Seconds as such a word: 5400 -> 1h30m. */
export function amountOfTime(seconds: number): string {
  let rest = Math.round(seconds);
  let word = "";
  for (const [unit, size] of [["d", 86_400], ["h", 3600], ["m", 60], ["s", 1]] as const) {
    const count = Math.floor(rest / size);
    if (count > 0) {
      word += `${count}${unit}`;
      rest -= count * size;
    }
  }
  return word === "" ? "0s" : word;
}

/** Bytes in `500M`, `64G`, `64GiB` (powers of 1024) or `64GB` (of 1000); null where it is none. */
export function readMemory(text: string): number | null {
  const match = /^(\d+(?:\.\d+)?)\s*([KMGT])(i?B)?$/i.exec(text.trim());
  if (match === null) {
    return null;
  }
  const base = (match[3] ?? "").toUpperCase() === "B" ? 1000 : 1024;
  return Math.round(Number(match[1]) * base ** (POWERS[(match[2] ?? "K").toUpperCase()] ?? 1));
}

/** Bytes as such a word: the largest unit that says it exactly enough. */
export function amountOfMemory(bytes: number): string {
  for (const unit of ["T", "G", "M"]) {
    const size = 1024 ** (POWERS[unit] ?? 1);
    if (bytes >= size && Number.isInteger((bytes / size) * 10)) {
      return `${bytes / size}${unit}`;
    }
  }
  return `${Math.round(bytes / 1024)}K`;
}

/** The words of a command line, as a shell splits it; null while a quote is open. */
export function splitCommand(text: string): string[] | null {
  const words: string[] = [];
  let word = "";
  let started = false;
  let quote = "";
  for (let at = 0; at < text.length; at += 1) {
    const sign = text[at] ?? "";
    if (sign === "\\" && quote !== "'" && at + 1 < text.length) {
      at += 1;
      const next = text[at] ?? "";
      word += quote === '"' && !/["\\$`\n]/.test(next) ? `\\${next}` : next === "\n" ? "" : next;
      started = started || next !== "\n";
    } else if (quote !== "") {
      if (sign === quote) {
        quote = "";
      } else {
        word += sign;
      }
    } else if (sign === "'" || sign === '"') {
      quote = sign;
      started = true;
    } else if (/\s/.test(sign)) {
      if (started) {
        words.push(word);
      }
      word = "";
      started = false;
    } else {
      word += sign;
      started = true;
    }
  }
  if (quote !== "") {
    return null;
  }
  return started ? [...words, word] : words;
}

/** Lines of `NAME=VALUE`; the first line that is none is named. */
export function readPairs(text: string): { pairs: Record<string, string>; fault: string | null } {
  const pairs: Record<string, string> = {};
  for (const line of text.split("\n")) {
    const written = line.trim();
    if (written === "") {
      continue;
    }
    const at = written.indexOf("=");
    if (at < 1) {
      return { pairs, fault: `${written} is not NAME=VALUE` };
    }
    pairs[written.slice(0, at).trim()] = written.slice(at + 1);
  }
  return { pairs, fault: null };
}
