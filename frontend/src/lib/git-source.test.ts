import { describe, expect, it } from "vitest";

import { gitFault, ofGit, viaGit } from "./git-source";
import { EMPTY, formOf, readForm } from "./submit-form";

describe("code from git", () => {
  it("is fetched by the command, and read back when a job is copied", () => {
    const read = readForm({ ...EMPTY, command: "python train.py --lr 1", git: "https://host/a/b.git", gitRef: "v1.2" });
    const command = read.fields?.command ?? [];
    expect(command.slice(0, 2)).toEqual(["sh", "-c"]);
    expect(command.slice(-6)).toEqual(["https://host/a/b.git", "v1.2", "python", "train.py", "--lr", "1"]);
    expect(ofGit(command)).toEqual({ address: "https://host/a/b.git", ref: "v1.2", command: ["python", "train.py", "--lr", "1"] });
    const job = { name: "x", queue: "default", priority: "normal", gpus: 1, nodes: 1, cpus: 0, memory_bytes: 0, gpu_types: [], preemptible: false, time_limit_seconds: null };
    expect(formOf({ job, spec: { command } })).toMatchObject({ command: "python train.py --lr 1", git: "https://host/a/b.git", gitRef: "v1.2" });
    expect(ofGit(viaGit("git@h:a", "", ["x"]))?.ref).toBe("");
    expect(ofGit(["sh", "-c", "echo"])).toBeNull();
  });

  it("takes no option, no password and nothing but an address", () => {
    expect(gitFault("git@host:team/code.git", "")).toBeNull();
    expect(gitFault("ssh://git@host/team/code", "feature/x")).toBeNull();
    for (const bad of ["--upload-pack=x", "code", "file:///etc", "ext::sh -c x", "https://host"]) {
      expect(gitFault(bad, "")?.about).toBe("git");
    }
    expect(gitFault("https://me:secret@host/code", "")?.sentence).toContain("password");
    for (const bad of ["--exec=x", "a..b", "a b"]) {
      expect(gitFault("https://host/code", bad)?.about).toBe("gitRef");
    }
  });

  it("does not go with a folder, nor with a launcher of several processes", () => {
    const git = { ...EMPTY, command: "x", git: "https://host/code" };
    expect(readForm({ ...git, package: "ab" }).faults.git).toContain("Either");
    expect(readForm({ ...git, launcher: "torchrun" }).faults.git).toContain("torchrun");
    expect(readForm({ ...EMPTY, command: "x", gitRef: "main" }).faults.git).toContain("Which");
  });
});
