import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

import react from "@vitejs/plugin-react";
import { defineConfig, type HtmlTagDescriptor, type Plugin } from "vite";

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
const server = process.env.YARD_URL ?? "http://127.0.0.1:8000";

const MAIN = '<script type="module" src="/src/main.tsx"></script>';

/**
 * Two scripts in index.html: the first asks for data while the second, which is large, is on its way.
 * Left alone, the build would make one of them.
 */
function twoScripts(): Plugin[] {
  const tag = (rel: string, name: string): HtmlTagDescriptor => ({ tag: "link", attrs: { rel, crossorigin: "", href: `./${name}` }, injectTo: "head" });
  return [
    {
      name: "one-script-in",
      apply: "build",
      transformIndexHtml: { order: "pre", handler: (html) => html.replace(MAIN, "") },
    },
    {
      name: "two-scripts-out",
      apply: "build",
      transformIndexHtml: {
        order: "post",
        handler: (_html, { bundle }) => {
          const chunks = Object.values(bundle ?? {}).flatMap((one) => (one.type === "chunk" ? [one] : []));
          const of = (path: string) => chunks.filter((one) => one.facadeModuleId?.endsWith(path));
          const main = of("/src/main.tsx");
          const names = new Set(main.flatMap((one) => [one.fileName, ...one.imports]));
          // The runs page is the one that people open most: early.ts loads its code ahead where the address asks for it.
          const runs = new Set(of("/src/pages/runs/runs.tsx").flatMap((one) => [one.fileName, ...one.imports]));
          const early = new Set(of("/index.html").flatMap((one) => [one.fileName, ...one.imports]));
          const styles = new Set(chunks.filter((one) => names.has(one.fileName)).flatMap((one) => [...(one.viteMetadata?.importedCss ?? [])]));
          return [
            ...main.map((one): HtmlTagDescriptor => ({ tag: "script", attrs: { type: "module", crossorigin: "", src: `./${one.fileName}` }, injectTo: "head" })),
            ...[...styles].map((name) => tag("stylesheet", name)),
            ...[...names].filter((name) => !early.has(name)).map((name) => tag("modulepreload", name)),
            ...[...runs].filter((name) => !early.has(name) && !names.has(name)).map((name) => tag("yard-runs", name)),
          ];
        },
      },
    },
  ];
}

/** Each script and style once more, packed, so that the server sends it so without any work. */
function packed(): Plugin {
  return {
    name: "packed",
    apply: "build",
    closeBundle() {
      const folder = here("./dist/assets/");
      for (const name of readdirSync(folder).filter((one) => /\.(js|css|svg)$/.test(one))) {
        writeFileSync(`${folder}${name}.gz`, gzipSync(readFileSync(folder + name), { level: 9 }));
      }
    },
  };
}

/** Few files rather than many small ones: each costs the browser a trip, cached or not. */
const GROUPS = [
  { name: "ask", priority: 3, test: /src\/(api\/(client|table-wish|team)|lib\/(address|view)|pages\/runs\/first)\.ts$/ },
  { name: "react", priority: 2, test: /node_modules\/(react|react-dom|scheduler|use-sync-external-store|@tanstack\/(react-query|query-core))\// },
  // What every page has, and no more: each byte here is paid for by whoever opens any page.
  { name: "shared", priority: 1.5, test: /src\/(ui\/(icon|menu|parts|toast|theme)|lib\/(format|states|search|metric-names|reasons|job-states|yard-line|colour|range)|api\/(session|stream|live|series|events|jobs|runs|models|wire|cluster)|routing\/\w+|features\/shell\/(shell|faults|keys|running-count|session-query))\.tsx?$/ },
  { name: "rows", priority: 1.2, test: /src\/(api\/table-store|features\/table\/(use-runs|sparkline|cells))\.tsx?$/ },
  { name: "table", priority: 1, test: /node_modules\/@tanstack\/(react-table|table-core|react-virtual|virtual-core)\/|src\/features\/(table|filter)\/[^c][\w-]*\.tsx?$/ },
];

export default defineConfig({
  // Relative, so that a proxy may mount the pages under a path; the server fills in the root.
  base: "./",
  plugins: [react(), ...twoScripts(), packed()],
  resolve: { alias: { "@tanstack/react-router": here("./src/routing/index.tsx") } },
  build: {
    target: "es2022",
    outDir: "dist",
    emptyOutDir: true,
    // Everything is a file of its own: the pages' policy allows no inline script or data address.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rolldownOptions: { input: [here("./index.html"), here("./src/main.tsx")], output: { codeSplitting: { groups: GROUPS } } },
  },
  server: {
    host: "127.0.0.1",
    proxy: {
      "/api": { target: server, changeOrigin: true },
      "/ajax-api": { target: server, changeOrigin: true },
      "/health": { target: server, changeOrigin: true },
      "/version": { target: server, changeOrigin: true },
    },
  },
});
