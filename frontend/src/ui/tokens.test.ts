/** Words can be read on every ground they may stand on, light and dark. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

const css = readFileSync("src/ui/tokens.css", "utf8");
const INKS = ["ink", "ink-2", "ink-3", "accent", "amber", "blue", "violet", "green", "red", "grey"];
const GROUNDS = ["ground", "panel", "sunk", "hover", "picked", "accent-soft", "grey-soft", "mark"];
const TONES = ["amber", "blue", "violet", "green", "red", "grey"];

function tokensOf(head: string): Record<string, string> {
  const from = css.indexOf(head);
  const block = css.slice(from, css.indexOf("}", from));
  return Object.fromEntries([...block.matchAll(/--([\w-]+):\s*(#[0-9a-f]{6})/g)].map(([, name = "", value = ""]) => [name, value]));
}

function light(colour: string): number {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((at) => {
    const part = Number.parseInt(colour.slice(at, at + 2), 16) / 255;
    return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function contrast(one: string, other: string): number {
  const [a, b] = [light(one), light(other)];
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}

test.each([
  ["light", ":root {"],
  ["dark by choice", ':root[data-theme="dark"] {'],
  ["dark by the system", ':root:not([data-theme="light"]) {'],
])("%s: every ink has a contrast of at least 4.5 to 1", (_, head) => {
  const tokens = tokensOf(head);
  const pairs = [
    ...INKS.flatMap((ink) => GROUNDS.map((ground) => [ink, ground] as const)),
    ...TONES.map((tone) => [tone, `${tone}-soft`] as const),
    ["accent-ink", "accent"] as const,
  ];
  const faint = pairs.filter(([ink, ground]) => !(contrast(tokens[ink] ?? "", tokens[ground] ?? "") >= 4.5));
  expect(faint).toEqual([]);
});
