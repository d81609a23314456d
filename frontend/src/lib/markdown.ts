/** Markdown as a tree: what notes and model cards need. Pure; never yields HTML, so nothing can be injected. */

export type Inline =
  | { kind: "text"; text: string }
  | { kind: "code"; text: string }
  | { kind: "strong" | "em" | "del"; children: Inline[] }
  | { kind: "link"; href: string; children: Inline[] };

export type Block =
  | { kind: "heading"; level: number; children: Inline[] }
  | { kind: "paragraph"; children: Inline[] }
  | { kind: "code"; text: string; language: string }
  | { kind: "quote"; children: Block[] }
  | { kind: "list"; ordered: boolean; items: { done: boolean | null; children: Inline[]; nested: Block[] }[] }
  | { kind: "table"; head: Inline[][]; rows: Inline[][][] }
  | { kind: "rule" };

/** Only addresses that cannot run anything become links. */
export function safeHref(href: string): string | null {
  const address = href.trim();
  return /^(https?:\/\/|mailto:|\/(?!\/)|#)/i.test(address) ? address : null;
}

/** Levels of emphasis, quotes and lists that are read; what lies deeper stays text. */
const MAX_DEPTH = 8;
const MAX_ADDRESS = 2000;
const BARE = /https?:\/\/[^\s<>)\]]+/y;
const WORD = /\w/;

/** Where marks stand next, each place looked up once: reading stays linear however many open in vain. */
class Marks {
  private readonly known = new Map<string, number>();

  constructor(private readonly text: string) {}

  /** Return the first place of a mark at or after `from`, or -1; `from` never goes back. */
  next(mark: string, from: number): number {
    const known = this.known.get(mark);
    if (known !== undefined && (known === -1 || known >= from)) {
      return known;
    }
    const found = this.text.indexOf(mark, from);
    this.known.set(mark, found);
    return found;
  }
}

type Found = { inline: Inline; end: number } | null;

/** Read what stands inside a line. */
export function parseInline(text: string, depth = 0): Inline[] {
  const found: Inline[] = [];
  const marks = new Marks(text);
  let plainFrom = 0;
  let at = 0;
  while (at < text.length) {
    const match = depth > MAX_DEPTH ? null : inlineAt(text, at, marks, depth);
    if (match === null) {
      at += 1;
      continue;
    }
    if (at > plainFrom) {
      found.push({ kind: "text", text: text.slice(plainFrom, at) });
    }
    found.push(match.inline);
    at = plainFrom = match.end;
  }
  if (plainFrom < text.length) {
    found.push({ kind: "text", text: text.slice(plainFrom) });
  }
  return found;
}

function inlineAt(text: string, at: number, marks: Marks, depth: number): Found {
  switch (text[at]) {
    case "`":
      return codeAt(text, at, marks);
    case "*":
      return wrapped(text, at, "**", "strong", marks, depth) ?? emphasis(text, at, "*", marks, depth);
    case "_":
      return wrapped(text, at, "__", "strong", marks, depth) ?? emphasis(text, at, "_", marks, depth);
    case "~":
      return wrapped(text, at, "~~", "del", marks, depth);
    case "[":
      return linkAt(text, at, marks, depth);
    case "h":
      return bareAt(text, at);
    default:
      return null;
  }
}

function codeAt(text: string, at: number, marks: Marks): Found {
  for (const mark of ["```", "``", "`"]) {
    const close = text.startsWith(mark, at) ? marks.next(mark, at + mark.length + 1) : -1;
    if (close !== -1) {
      return { inline: { kind: "code", text: text.slice(at + mark.length, close) }, end: close + mark.length };
    }
  }
  return null;
}

function wrapped(text: string, at: number, mark: string, kind: "strong" | "del", marks: Marks, depth: number): Found {
  const close = text.startsWith(mark, at) ? marks.next(mark, at + mark.length + 1) : -1;
  if (close === -1) {
    return null;
  }
  const inner = text.slice(at + mark.length, close);
  return { inline: { kind, children: parseInline(inner, depth + 1) }, end: close + mark.length };
}

function emphasis(text: string, at: number, mark: "*" | "_", marks: Marks, depth: number): Found {
  const first = text[at + 1] ?? mark;
  const close = marks.next(mark, at + 1);
  if (close <= at + 1 || (mark === "*" && first.trim() === "")) {
    return null;
  }
  if (mark === "_" && (WORD.test(text[at - 1] ?? "") || WORD.test(text[close + 1] ?? ""))) {
    return null;
  }
  return { inline: { kind: "em", children: parseInline(text.slice(at + 1, close), depth + 1) }, end: close + 1 };
}

function linkAt(text: string, at: number, marks: Marks, depth: number): Found {
  const close = marks.next("]", at + 1);
  if (close === -1 || text[close + 1] !== "(") {
    return null;
  }
  const end = marks.next(")", close + 2);
  if (end <= close + 2 || end - close > MAX_ADDRESS) {
    return null;
  }
  const target = text.slice(close + 2, end);
  if (/\s/.test(target)) {
    return null;
  }
  const href = safeHref(target);
  if (href === null) {
    return { inline: { kind: "text", text: text.slice(at, end + 1) }, end: end + 1 };
  }
  return { inline: { kind: "link", href, children: parseInline(text.slice(at + 1, close), depth + 1) }, end: end + 1 };
}

function bareAt(text: string, at: number): Found {
  BARE.lastIndex = at;
  const address = BARE.exec(text)?.[0];
  if (address === undefined) {
    return null;
  }
  return { inline: { kind: "link", href: address, children: [{ kind: "text", text: address }] }, end: at + address.length };
}

const BULLET = /^(\s*)(?:[-*+]|(\d+)[.)])\s+(?:\[([ xX])\]\s+)?(.*)$/;

/** Read a whole text. */
export function parseMarkdown(text: string, depth = 0): Block[] {
  const lines = text.replace(/\r\n?/g, "\n").split("\n");
  const blocks: Block[] = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at] ?? "";
    if (line.trim() === "") {
      at += 1;
      continue;
    }
    const [block, next] = blockAt(lines, at, depth);
    blocks.push(block);
    at = Math.max(next, at + 1);
  }
  return blocks;
}

function blockAt(lines: readonly string[], at: number, depth: number): [Block, number] {
  const line = lines[at] ?? "";
  const fence = /^(```+|~~~+)\s*(\S*)/.exec(line);
  if (fence !== null) {
    return fenced(lines, at, fence[1] ?? "```", fence[2] ?? "");
  }
  const heading = /^(#{1,6})\s+(.*)$/.exec(line);
  if (heading !== null) {
    return [{ kind: "heading", level: heading[1]?.length ?? 1, children: parseInline(withoutHashes(heading[2] ?? "")) }, at + 1];
  }
  if (/^\s*([-*_])(\s*\1){2,}\s*$/.test(line)) {
    return [{ kind: "rule" }, at + 1];
  }
  if (line.startsWith(">") && depth < MAX_DEPTH) {
    return quote(lines, at, depth);
  }
  if (BULLET.test(line)) {
    return list(lines, at, 0);
  }
  const below = lines[at + 1] ?? "";
  if (line.includes("|") && below.includes("-") && /^[\s:|-]+$/.test(below)) {
    return table(lines, at);
  }
  return paragraph(lines, at);
}

function withoutHashes(text: string): string {
  let end = text.trimEnd().length;
  while (end > 0 && text[end - 1] === "#") {
    end -= 1;
  }
  return text.slice(0, end).trimEnd();
}

function fenced(lines: readonly string[], at: number, mark: string, language: string): [Block, number] {
  let end = at + 1;
  while (end < lines.length && !(lines[end] ?? "").startsWith(mark)) {
    end += 1;
  }
  return [{ kind: "code", text: lines.slice(at + 1, end).join("\n"), language }, end + 1];
}

function quote(lines: readonly string[], at: number, depth: number): [Block, number] {
  let end = at;
  while (end < lines.length && (lines[end] ?? "").startsWith(">")) {
    end += 1;
  }
  const inner = lines.slice(at, end).map((line) => line.replace(/^>\s?/, ""));
  return [{ kind: "quote", children: parseMarkdown(inner.join("\n"), depth + 1) }, end];
}

function list(lines: readonly string[], at: number, level: number): [Block, number] {
  const first = BULLET.exec(lines[at] ?? "");
  const depth = first?.[1]?.length ?? 0;
  const ordered = first?.[2] !== undefined;
  const items: { done: boolean | null; children: Inline[]; nested: Block[] }[] = [];
  let end = at;
  while (end < lines.length) {
    const match = BULLET.exec(lines[end] ?? "");
    const indent = match?.[1]?.length ?? -1;
    if (match === null || indent < depth) {
      break;
    }
    const last = items[items.length - 1];
    if (indent > depth + 1 && last !== undefined && level < MAX_DEPTH) {
      const [nested, next] = list(lines, end, level + 1);
      last.nested.push(nested);
      end = next;
    } else {
      const done = match[3] === undefined ? null : match[3] !== " ";
      items.push({ done, children: parseInline(match[4] ?? ""), nested: [] });
      end += 1;
    }
  }
  return [{ kind: "list", ordered, items }, end];
}

function cells(line: string): Inline[][] {
  const plain = line.trim().replace(/^\|/, "").replace(/\|$/, "");
  return plain.split("|").map((part) => parseInline(part.trim()));
}

function table(lines: readonly string[], at: number): [Block, number] {
  let end = at + 2;
  while (end < lines.length && (lines[end] ?? "").includes("|")) {
    end += 1;
  }
  return [{ kind: "table", head: cells(lines[at] ?? ""), rows: lines.slice(at + 2, end).map(cells) }, end];
}

function paragraph(lines: readonly string[], at: number): [Block, number] {
  let end = at + 1;
  while (end < lines.length && (lines[end] ?? "").trim() !== "" && !/^(#{1,6}\s|```|~~~|>)/.test(lines[end] ?? "") && !BULLET.test(lines[end] ?? "")) {
    end += 1;
  }
  return [{ kind: "paragraph", children: parseInline(lines.slice(at, end).join(" ")) }, end];
}

/** Markdown in one line of plain words, for a cell. */
export function plain(text: string): string {
  return text.replace(/[#*`\n|]+/g, " ").replace(/ {2,}/g, " ").trim();
}
