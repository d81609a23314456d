/** What is written in the form becomes the wish and the line that mean the same. */
import { describe, expect, it } from "vitest";

import { amountOfMemory, amountOfTime, readMemory, readPairs, readTime, splitCommand } from "./amounts";
import { EMPTY, formOf, readForm, submitLine } from "./submit-form";

describe("amounts", () => {
  it("are read as the command line reads them", () => {
    expect(readTime("2h30m")).toBe(9000);
    expect(readTime("1-12:00:00")).toBe(129_600);
    expect(readTime("90")).toBeNull();
    expect(readMemory("64G")).toBe(64 * 1024 ** 3);
    expect(readMemory("64GB")).toBe(64e9);
    expect(readMemory("lots")).toBeNull();
  });

  it("are said back in words that read the same", () => {
    for (const seconds of [1, 90, 5400, 86_400, 100_000]) {
      expect(readTime(amountOfTime(seconds))).toBe(seconds);
    }
    for (const size of [1024 ** 3, 1.5 * 1024 ** 3, 500 * 1024 ** 2, 2 * 1024 ** 4]) {
      expect(readMemory(amountOfMemory(size))).toBe(size);
    }
  });

  it("split a command as a shell does", () => {
    expect(splitCommand(`python -c 'print("a b")' --name "x \\"y\\"" a\\ b`)).toEqual(["python", "-c", 'print("a b")', "--name", 'x "y"', "a b"]);
    expect(splitCommand("sh -c ''")).toEqual(["sh", "-c", ""]);
    expect(splitCommand("echo 'open")).toBeNull();
    expect(splitCommand("a \\\n  b")).toEqual(["a", "b"]);
    expect(splitCommand("  ")).toEqual([]);
  });

  it("name the line that is no pair", () => {
    expect(readPairs("A=1\n\nB=x=y")).toEqual({ pairs: { A: "1", B: "x=y" }, fault: null });
    expect(readPairs("A=1\noops").fault).toContain("oops");
  });
});

describe("the form", () => {
  it("asks for nothing that was not written", () => {
    expect(readForm({ ...EMPTY, command: "python train.py" }).fields).toEqual({ command: ["python", "train.py"], gpus: 1 });
    expect(readForm(EMPTY).fields).toBeNull();
  });

  it("marks each field that is wrong and sends nothing", () => {
    const { fields, faults } = readForm({ ...EMPTY, command: "x", gpus: "two", time: "90", memory: "much", nodes: "1.5", after: "j1:never", env: "A" });
    expect(fields).toBeNull();
    expect(Object.keys(faults).sort()).toEqual(["after", "env", "gpus", "memory", "nodes", "time"]);
  });

  it("becomes the line with the same flags", () => {
    const { fields } = readForm({
      ...EMPTY,
      command: "python train.py --lr '3e-4 x'",
      name: "first",
      gpus: "0.5",
      gpuType: "A100, H100",
      memory: "64G",
      time: "2h30m",
      priority: "high",
      preemptible: true,
      retries: "2",
      after: "j1, j2:any-end",
      array: "0-9%2",
      env: "A=1\nB=two words",
      pip: "torch\n# not this",
      hold: true,
    });
    expect(fields).toMatchObject({ gpus: 0.5, gpu_types: ["A100", "H100"], time_limit_seconds: 9000, pip: ["torch"], after: [{ job: "j1", when: "success" }, { job: "j2", when: "any-end" }] });
    expect(fields === null ? "" : submitLine(fields)).toBe(
      "yard submit --name first --gpus 0.5 --gpu-type A100,H100 --memory 64G --time 2h30m --priority high --preemptible --retries 2 --after j1 --after j2:any-end --array 0-9%2 --env A=1 --env 'B=two words' --pip requirements.txt --hold --no-working-dir -- python train.py --lr '3e-4 x'",
    );
  });

  it("starts a notebook as `yard notebook` does, and copies one", () => {
    const { fields } = readForm({ ...EMPTY, kind: "notebook", gpus: "0.5", idle: "30m", python: "/opt/torch/bin/python", data: "food11@v2\nwords" });
    expect(fields).toEqual({
      command: ["/opt/torch/bin/python", "-m", "jupyterlab"],
      name: "notebook",
      gpus: 0.5,
      data: ["food11@v2", "words"],
      interactive: { kind: "notebook", folder: "notebook", idle_seconds: 1800 },
    });
    expect(fields === null ? "" : submitLine(fields)).toBe("yard notebook --python /opt/torch/bin/python --idle 30m --gpus 0.5 --data food11@v2 --data words");
    const job = { name: "notebook", queue: "default", priority: "normal", gpus: 0.5, nodes: 1, cpus: 0, memory_bytes: 0, gpu_types: [], preemptible: false, time_limit_seconds: null };
    const data = [{ name: "food11", version: 2, variable: "FOOD" }, { name: "words", version: 1, variable: "YARD_DATA_WORDS" }];
    expect(readForm(formOf({ job, spec: { ...fields, data } })).fields).toEqual({ ...fields, data: ["FOOD=food11@v2", "words@v1"] });
    expect(readForm({ ...EMPTY, kind: "notebook", idle: "soon" }).faults.idle).toContain("30m");
    expect(readForm({ ...EMPTY, kind: "notebook", gpus: "0", idle: "0" }).fields).toEqual({ command: ["jupyter-lab"], name: "notebook", interactive: { kind: "notebook", folder: "notebook" } });
  });

  it("starts a web app with its command", () => {
    const { fields } = readForm({ ...EMPTY, kind: "app", gpus: "0", command: "streamlit run 'my app.py'" });
    expect(fields).toEqual({ command: ["streamlit", "run", "my app.py"], interactive: { kind: "app", idle_seconds: 7200 } });
    expect(fields === null ? "" : submitLine(fields)).toBe(String.raw`yard notebook --app 'streamlit run '\''my app.py'\''' --no-working-dir`);
    expect(readForm({ ...EMPTY, kind: "app" }).fields).toBeNull();
  });

  it("copies a job so that the copy asks for the same", () => {
    const spec = { command: ["python", "a b.py"], gpus: 2, retries: 3, env: { A: "1" }, grace_seconds: 30, package: "ab".repeat(32), package_format: "tar.gz" };
    const job = { name: "n", queue: "default", priority: "low", gpus: 4, nodes: 2, cpus: 1.5, memory_bytes: 1024 ** 3, gpu_types: ["H100"], preemptible: true, time_limit_seconds: 3600 };
    expect(readForm(formOf({ job, spec })).fields).toEqual({
      command: ["python", "a b.py"],
      name: "n",
      gpus: 2,
      nodes: 2,
      cpus: 1.5,
      memory_bytes: 1024 ** 3,
      gpu_types: ["H100"],
      priority: "low",
      preemptible: true,
      time_limit_seconds: 3600,
      retries: 3,
      env: { A: "1" },
      grace_seconds: 30,
      package: "ab".repeat(32),
      package_format: "tar.gz",
    });
  });
});
