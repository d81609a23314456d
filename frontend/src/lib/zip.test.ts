import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

import { crc32, isCode, zip } from "./zip";

const bytes = (text: string): Uint8Array<ArrayBuffer> => new Uint8Array(new TextEncoder().encode(text));

describe("a zip archive", () => {
  it("is read by another program, with its names and contents", async () => {
    const folder = mkdtempSync(join(tmpdir(), "zip-"));
    const blob = zip([
      { path: "train.py", data: bytes("print('hé')\n") },
      { path: "lib/große.txt", data: bytes("") },
    ]);
    const data = await new Promise<ArrayBuffer>((resolve) => {
      const reader = new FileReader();
      reader.addEventListener("load", () => resolve(reader.result as ArrayBuffer));
      reader.readAsArrayBuffer(blob);
    });
    writeFileSync(join(folder, "a.zip"), new Uint8Array(data));
    const script = "import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); assert z.testzip() is None; print([(n, z.read(n).decode()) for n in z.namelist()])";
    const read = execFileSync("python3", ["-c", script, join(folder, "a.zip")], { encoding: "utf8" });
    rmSync(folder, { recursive: true });
    expect(read.trim()).toBe(`[('lib/große.txt', ''), ('train.py', "print('hé')\\n")]`);
  });

  it("sums as everyone does", () => {
    expect(crc32(bytes("123456789"))).toBe(0xcbf43926);
  });

  it("leaves out history, environments and caches", () => {
    expect(["train.py", "src/.env", ".git/config", "a/node_modules/x.js", "b/c.pyc"].filter(isCode)).toEqual(["train.py", "src/.env"]);
  });
});
