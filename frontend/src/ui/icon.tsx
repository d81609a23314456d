/** Line icons, drawn here so that nothing is fetched from anywhere. */
import type { ReactElement } from "react";

const PATHS = {
  home: "M2.5 7 8 2.5 13.5 7v6.5h-4v-4h-3v4h-4z",
  runs: "M2 12.5 5.5 8l3 2.5L14 4M2 2v12h12",
  experiments: "M6 2h4M6.8 2v4L3 13.2c-.3.5.1.8.6.8h8.8c.5 0 .9-.3.6-.8L9.2 6V2M5 10h6",
  models: "M8 1.8 13.5 5v6L8 14.2 2.5 11V5zM2.5 5 8 8.2 13.5 5M8 8.2v6",
  data: "M13.5 4c0 1.1-2.5 2-5.5 2s-5.5-.9-5.5-2S5 2 8 2s5.5.9 5.5 2zM2.5 4v8c0 1.1 2.5 2 5.5 2s5.5-.9 5.5-2V4M2.5 8c0 1.1 2.5 2 5.5 2s5.5-.9 5.5-2",
  report: "M3.500 1.800h9v12.400h-9zM5.500 11.500v-3M8 11.500V6M10.500 11.500V8M5.500 4h5",
  gauge: "M2.5 12.500a6 6 0 1 1 11 0M8 10l3-4M4.500 12.500h7",
  log: "M3 3.5h10M3 6.5h10M3 9.5h7M3 12.5h5",
  clock: "M8 4.5V8l2.3 1.5M14 8A6 6 0 1 1 2 8a6 6 0 0 1 12 0z",
  ring: "M8 2a6 6 0 1 1-6 6",
  dots: "M8 2v.01M12.2 3.8v.01M14 8v.01M12.2 12.2v.01M8 14v.01M3.8 12.2v.01M2 8v.01M3.8 3.8v.01",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  tick: "M2.5 8.5 6 12l7.5-8",
  cross: "M3.5 3.5l9 9M12.5 3.5l-9 9",
  square: "M3.5 3.5h9v9h-9z",
  arrows: "M3 5.5h9l-2.5-2.5M13 10.5H4L6.5 13",
  star: "M8 1.8l1.9 4 4.3.5-3.2 3 .9 4.3L8 11.4l-3.9 2.2.9-4.3-3.2-3 4.3-.5z",
  eye: "M1.5 8S4 3.5 8 3.5 14.5 8 14.5 8 12 12.5 8 12.5 1.5 8 1.5 8zM10 8a2 2 0 1 1-4 0 2 2 0 0 1 4 0z",
  "eye-off": "M2 2l12 12M6.3 3.8A6 6 0 0 1 8 3.5C12 3.5 14.5 8 14.5 8a12 12 0 0 1-1.9 2.4M4 5.2A11.600 11.600 0 0 0 1.500 8S4 12.500 8 12.500a6 6 0 0 0 2.700-.6",
  down: "M4 6l4 4 4-4",
  right: "M6 4l4 4-4 4",
  left: "M10 4 6 8l4 4",
  up: "M4 10l4-4 4 4",
  search: "M11 11l3 3M12.500 7.200a5.300 5.300 0 1 1-10.600 0 5.300 5.300 0 0 1 10.600 0z",
  copy: "M5.500 5.500V3h7.500v7.500h-2.500M3 5.500h7.500V13H3z",
  pin: "M9.500 2l4.500 4.500-2 .5-2.500 2.500-.5 3-5.500-5.500 3-.5L9 4zM5.500 10.500 2 14",
  columns: "M2.500 3h11v10h-11zM6.200 3v10M9.800 3v10",
  group: "M2 3h5v4H2zM2 9.500h5v4H2zM9.500 4h4.500M9.500 6h3M9.500 10.500h4.500M9.500 12.500h3",
  save: "M4 2h8v12l-4-3-4 3z",
  download: "M8 2v8.500M4.500 7.500 8 11l3.500-3.500M2.500 13.500h11",
  expand: "M9.500 2.500h4v4M13.500 2.500 9 7M6.500 13.500h-4v-4M2.500 13.500 7 9",
  trash: "M2.500 4h11M6 4V2.500h4V4M4 4l.7 9.500h6.600L12 4M6.700 6.500v4.500M9.300 6.500v4.500",
  tag: "M2.500 2.500h5l6 6-5 5-6-6zM5.500 5.500v.01",
  restore: "M3 8a5 5 0 1 0 1.600-3.600L3 6M3 2.500V6h3.500",
  compare: "M5 2v12M11 2v12M2 5h3M2 9h3M11 6h3M11 10h3",
  plus: "M8 3v10M3 8h10",
  more: "M3.500 8v.01M8 8v.01M12.500 8v.01",
  sun: "M8 1v1.500M8 13.500V15M1 8h1.500M13.500 8H15M3 3l1 1M12 12l1 1M3 13l1-1M12 4l1-1M11 8a3 3 0 1 1-6 0 3 3 0 0 1 6 0z",
  moon: "M13.500 9.500A6 6 0 0 1 6.500 2.500a6 6 0 1 0 7 7z",
  user: "M8 8a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM2.500 14c.6-3 2.800-4.300 5.500-4.300s4.900 1.300 5.500 4.300",
  folder: "M2 4h4.500l1.500 1.500h6V13H2z",
  file: "M4 1.800h5L12.500 5.300v8.900H4zM9 2v3.500h3.500",
  edit: "M10.800 2.700l2.500 2.500L5.500 13H3v-2.500z",
  link: "M6.500 9.500l3-3M7 4.500 9 2.700a2.800 2.800 0 0 1 4 4L11.200 8.700M9 11.500 7 13.300a2.800 2.800 0 0 1-4-4L4.800 7.300",
  warn: "M8 2 15 13.500H1zM8 6.500v3.500M8 12v.01",
  out: "M6.500 2.500h-4v11h4M10 5l3 3-3 3M13 8H6",
  help: "M5.800 6a2.200 2.200 0 1 1 3.300 1.900c-.7.4-1.100.8-1.100 1.600M8 12v.01M14.500 8a6.500 6.500 0 1 1-13 0 6.500 6.500 0 0 1 13 0z",
  sliders: "M2 4.500h7M12 4.500h2M2 11.500h2M7 11.500h7M10.500 3v3M5.500 10v3",
  queue: "M2.5 3.5h7M2.5 8h11M2.5 12.5h5",
  nodes: "M2.5 2.5h11v4.500h-11zM2.500 9h11v4.500h-11zM5 4.800v.01M5 11.200v.01M8 4.800h3M8 11.200h3",
  calendar: "M2.500 3.500h11v10h-11zM2.500 6.500h11M5.500 2v3M10.500 2v3M5 9h3M9.500 11.200h2",
  usage: "M2.500 13.500h11M4 13.500v-4M7 13.500V5.500M10 13.500v-6M13 13.500V2.500",
  bell: "M8 2a4 4 0 0 0-4 4c0 4-1.500 5-1.500 5h11S12 10 12 6a4 4 0 0 0-4-4zM6.700 13.500a1.500 1.500 0 0 0 2.600 0",
  play: "M5 3l7.500 5L5 13z",
  refresh: "M13 8a5 5 0 1 1-1.600-3.600L13 6M13 2.500V6H9.500",
} as const;

export type IconName = keyof typeof PATHS;

/** One icon; give it a title only where no word stands beside it. */
export function Icon({ name, title, filled }: { name: IconName; title?: string; filled?: boolean }): ReactElement {
  return (
    <svg
      className="icon-svg"
      viewBox="0 0 16 16"
      role={title === undefined ? undefined : "img"}
      aria-hidden={title === undefined}
      aria-label={title}
      style={filled === true ? { fill: "currentColor" } : undefined}
    >
      <path d={PATHS[name]} />
    </svg>
  );
}

/** The platform's own mark. */
export function Brand(): ReactElement {
  return (
    <svg viewBox="0 0 20 20" width="20" height="20" aria-hidden="true">
      <path d="M2 17 10 3v14z" fill="var(--accent)" />
      <path d="M11 3h7l-7 12z" fill="var(--ink-3)" />
    </svg>
  );
}

/** The same as an element, for what is drawn without React. */
export function drawIcon(name: IconName): SVGSVGElement {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  svg.setAttribute("class", "icon-svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("aria-hidden", "true");
  path.setAttribute("d", PATHS[name]);
  svg.append(path);
  return svg;
}
