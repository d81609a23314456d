/** A run's colour: fixed by its id, from a set that colour-blind eyes tell apart. Pure. */

/** Hues of Okabe and Ito and of Tol, each legible on both grounds. */
export const PALETTE = [
  "#0072b2",
  "#e69f00",
  "#009e73",
  "#cc79a7",
  "#d55e00",
  "#56b4e9",
  "#aa3377",
  "#999933",
  "#44aa99",
  "#aa4499",
  "#6699cc",
  "#b8860b",
  "#117733",
  "#ee7733",
  "#7e6bd6",
  "#cc6677",
  "#33a1c9",
  "#8c8c3a",
  "#d6589f",
  "#5b8c5a",
] as const;

/** A small, well-mixed hash of a text (FNV-1a). */
export function hash(text: string): number {
  let state = 0x811c9dc5;
  for (let at = 0; at < text.length; at += 1) {
    state ^= text.charCodeAt(at);
    state = Math.imul(state, 0x01000193);
  }
  state ^= state >>> 15;
  state = Math.imul(state, 0x2c1b3c6d);
  state ^= state >>> 12;
  return state >>> 0;
}

/** The colour of a run, or of anything with a name: a hue of the set, plain, lighter or darker. */
export function colourOf(id: string): string {
  const mixed = hash(id);
  const hue = PALETTE[mixed % PALETTE.length] ?? PALETTE[0];
  return shaded(hue, [0, 0.24, -0.12][Math.floor(mixed / PALETTE.length) % 3] ?? 0);
}

/** Colours for things drawn together: each its own where it is free, else the next free hue of the set. */
export function coloursOf(ids: readonly string[]): Map<string, string> {
  const found = new Map<string, string>();
  let taken = new Set<number>();
  for (const id of ids) {
    if (found.has(id)) {
      continue;
    }
    if (taken.size === PALETTE.length) {
      taken = new Set();
    }
    const own = hash(id) % PALETTE.length;
    let at = own;
    while (taken.has(at)) {
      at = (at + 1) % PALETTE.length;
    }
    taken.add(at);
    const round = Math.floor(found.size / PALETTE.length);
    found.set(id, at === own && round === 0 ? colourOf(id) : shaded(PALETTE[at] ?? PALETTE[0], [0, 0.3, -0.2][round % 3] ?? 0));
  }
  return found;
}

/** A colour moved towards white (above zero) or black (below). */
export function shaded(colour: string, by: number): string {
  const value = Number.parseInt(colour.slice(1), 16);
  const towards = by > 0 ? 255 : 0;
  const part = (shift: number): string => {
    const old = (value >> shift) & 255;
    return Math.round(old + (towards - old) * Math.abs(by)).toString(16).padStart(2, "0");
  };
  return `#${part(16)}${part(8)}${part(0)}`;
}

/** The same colour, see-through. */
export function faded(colour: string, alpha: number): string {
  const value = Number.parseInt(colour.slice(1), 16);
  return `rgba(${(value >> 16) & 255}, ${(value >> 8) & 255}, ${value & 255}, ${alpha})`;
}

/** A point on a ramp from violet over teal to yellow, for colouring by a value in 0..1. */
export function ramp(share: number): string {
  const stops = [
    [68, 1, 84],
    [59, 82, 139],
    [33, 145, 140],
    [94, 201, 98],
    [220, 200, 40],
  ] as const;
  const place = Math.min(1, Math.max(0, share)) * (stops.length - 1);
  const low = stops[Math.floor(place)] ?? stops[0];
  const high = stops[Math.ceil(place)] ?? stops[4];
  const rest = place - Math.floor(place);
  const mix = (at: 0 | 1 | 2): number => Math.round(low[at] + (high[at] - low[at]) * rest);
  return `rgb(${mix(0)}, ${mix(1)}, ${mix(2)})`;
}
