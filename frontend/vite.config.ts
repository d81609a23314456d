import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

const server = process.env.YARD_URL ?? "http://127.0.0.1:8000";

export default defineConfig({
  // Relative, so that a proxy may mount the pages under a path; the server fills in the root.
  base: "./",
  plugins: [react()],
  build: {
    target: "es2022",
    outDir: "dist",
    emptyOutDir: true,
    // Everything is a file of its own: the pages' policy allows no inline script or data address.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
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
