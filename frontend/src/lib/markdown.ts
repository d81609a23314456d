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

const INLINE = /(`+)(.+?)\1|\*\*(.+?)\*\*|__(.+?)__|~~(.+?)~~|\*([^\s*][^*]*)\*|\b_([^_]+)_\b|\[([^\]]*)\]\(([^)\s]+)\)|(https?:\/\/[^\s<>)\]]+)/;

/** Read what stands inside a line. */
export function parseInline(text: string): Inline[] {
  const found: Inline[] = [];
  let rest = text;
  for (;;) {
    const match = INLINE.exec(rest);
    if (match === null) {
      break;
    }
    if (match.index > 0) {
      found.push({ kind: "text", text: rest.slice(0, match.index) });
    }
    found.push(inlineOf(match));
    rest = rest.slice(match.index + match[0].length);
  }
  if (rest !== "") {
    found.push({ kind: "text", text: rest });
  }
  return found;
}

function inlineOf(match: RegExpExecArray): Inline {
  const [whole, , code, strong, strong2, del, em, em2, label, target, bare] = match;
  if (code !== undefined) {
    return { kind: "code", text: code };
  }
  if (strong !== undefined || strong2 !== undefined) {
    return { kind: "strong", children: parseInline(strong ?? strong2 ?? "") };
  }
  if (del !== undefined) {
    return { kind: "del", children: parseInline(del) };
  }
  if (em !== undefined || em2 !== undefined) {
    return { kind: "em", children: parseInline(em ?? em2 ?? "") };
  }
  const href = safeHref(target ?? bare ?? "");
  if (href === null) {
    return { kind: "text", text: whole };
  }
  return { kind: "link", href, children: bare === undefined ? parseInline(label ?? "") : [{ kind: "text", text: bare }] };
}

const BULLET = /^(\s*)(?:[-*+]|(\d+)[.)])\s+(?:\[([ xX])\]\s+)?(.*)$/;

/** Read a whole text. */
export function parseMarkdown(text: string): Block[] {
  const lines = text.replace(/\r\n?/g, "\n").split("\n");
  const blocks: Block[] = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at] ?? "";
    if (line.trim() === "") {
      at += 1;
      continue;
    }
    const [block, next] = blockAt(lines, at);
    blocks.push(block);
    at = Math.max(next, at + 1);
  }
  return blocks;
}

function blockAt(lines: readonly string[], at: number): [Block, number] {
  const line = lines[at] ?? "";
  const fence = /^(```+|~~~+)\s*(\S*)/.exec(line);
  if (fence !== null) {
    return fenced(lines, at, fence[1] ?? "```", fence[2] ?? "");
  }
  const heading = /^(#{1,6})\s+(.*?)\s*#*$/.exec(line);
  if (heading !== null) {
    return [{ kind: "heading", level: heading[1]?.length ?? 1, children: parseInline(heading[2] ?? "") }, at + 1];
  }
  if (/^\s*([-*_])(\s*\1){2,}\s*$/.test(line)) {
    return [{ kind: "rule" }, at + 1];
  }
  if (line.startsWith(">")) {
    return quote(lines, at);
  }
  if (BULLET.test(line)) {
    return list(lines, at);
  }
  if (line.includes("|") && /^\s*\|?[\s:|-]*-[\s:|-]*$/.test(lines[at + 1] ?? "")) {
    return table(lines, at);
  }
  return paragraph(lines, at);
}

function fenced(lines: readonly string[], at: number, mark: string, language: string): [Block, number] {
  let end = at + 1;
  while (end < lines.length && !(lines[end] ?? "").startsWith(mark)) {
    end += 1;
  }
  return [{ kind: "code", text: lines.slice(at + 1, end).join("\n"), language }, end + 1];
}

function quote(lines: readonly string[], at: number): [Block, number] {
  let end = at;
  while (end < lines.length && (lines[end] ?? "").startsWith(">")) {
    end += 1;
  }
  const inner = lines.slice(at, end).map((line) => line.replace(/^>\s?/, ""));
  return [{ kind: "quote", children: parseMarkdown(inner.join("\n")) }, end];
}

function list(lines: readonly string[], at: number): [Block, number] {
  const first = BULLET.exec(lines[at] ?? "");
  const depth = first?.[1]?.length ?? 0;
  const ordered = first?.[2] !== undefined;
  const items: { done: boolean | null; children: Inline[]; nested: Block[] }[] = [];
  let end = at;
  while (end < lines.length) {
    const match = BULLET.exec(lines[end] ?? "");
    const indent = match?.[1]?.length ?? -1;
    const last = items[items.length - 1];
    if (match !== null && indent > depth + 1 && last !== undefined) {
      const [nested, next] = list(lines, end);
      last.nested.push(nested);
      end = next;
    } else if (match !== null && indent >= depth && indent <= depth + 1) {
      const done = match[3] === undefined ? null : match[3] !== " ";
      items.push({ done, children: parseInline(match[4] ?? ""), nested: [] });
      end += 1;
    } else {
      break;
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
