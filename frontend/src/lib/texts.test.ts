// @vitest-environment node
import { describe, expect, test } from "vitest";

import { parseCsv, toCsv } from "./csv";
import { compareMaps, diffLines } from "./diff";
import { detailOf, objectOf, pageOf, verbOf } from "./event-words";
import { baseName, escapePath, folderName, parents, viewerOf } from "./files";
import { parseInline, parseMarkdown, safeHref } from "./markdown";
import { commitAddress, sourceFacts, tagMap } from "./run-facts";
import { best, matcher, score } from "./search";
import { few, shell, yard } from "./yard-line";

describe("differences between texts", () => {
  const kinds = (a: string, b: string): string[] => diffLines(a, b).map((line) => line.kind);

  test("equal texts have none", () => {
    expect(kinds("a\nb", "a\nb")).toEqual(["same", "same"]);
  });

  test("a changed line stands beside the old one", () => {
    const lines = diffLines("a\nb\nc", "a\nB\nc");
    expect(lines.map((line) => line.kind)).toEqual(["same", "changed", "same"]);
    expect(lines[1]).toMatchObject({ left: "b", right: "B", leftNumber: 2, rightNumber: 2 });
  });

  test("new and gone lines are told apart, and the rest still lines up", () => {
    expect(kinds("a\nb\nc\nd", "a\nc\nd\ne")).toEqual(["same", "gone", "same", "same", "new"]);
    const lines = diffLines("1\n2\n3\n4\n5", "1\nx\n3\ny\n5");
    expect(lines.filter((line) => line.kind === "same").map((line) => [line.left, line.right])).toEqual([
      ["1", "1"],
      ["3", "3"],
      ["5", "5"],
    ]);
  });

  test("nothing against something", () => {
    expect(kinds("", "a\nb").filter((kind) => kind !== "same")).not.toHaveLength(0);
  });

  test("pairs are laid side by side and marked where they differ", () => {
    const rows = compareMaps([new Map([["lr", "1"], ["b", "2"]]), new Map([["lr", "3"], ["b", "2"], ["c", "4"]])]);
    expect(rows).toEqual([
      { key: "b", values: ["2", "2"], differs: false },
      { key: "c", values: [null, "4"], differs: true },
      { key: "lr", values: ["1", "3"], differs: true },
    ]);
  });
});

describe("tables as text", () => {
  test("cells with signs are quoted, formulas disarmed, numbers left alone", () => {
    expect(toCsv(["a", "b"], [["x,y", 'say "hi"'], ["=1+1", -3], [null, "-4"]])).toBe('a,b\n"x,y","say ""hi"""\n\'=1+1,-3\n,-4\n');
  });

  test("quotes, line breaks and tabs are understood", () => {
    expect(parseCsv('a,b\r\n"x, ""y""","1\n2"\n\nlast,')).toEqual([["a", "b"], ['x, "y"', "1\n2"], ["last", ""]]);
    expect(parseCsv("a\tb\n1\t2", "\t")).toEqual([["a", "b"], ["1", "2"]]);
    expect(parseCsv("a\nb\nc", ",", 2)).toEqual([["a"], ["b"]]);
  });
});

describe("Markdown", () => {
  test("blocks are told apart", () => {
    const text = "# Title\n\ntext *one* **two**\nmore\n\n- [x] done\n- open\n  - deep\n\n1. first\n\n> said\n\n```py\na = 1\n```\n\n|a|b|\n|-|-|\n|1|2|\n\n---";
    expect(parseMarkdown(text).map((block) => block.kind)).toEqual(["heading", "paragraph", "list", "list", "quote", "code", "table", "rule"]);
  });

  test("a task says whether it is done, and lists nest", () => {
    const [list] = parseMarkdown("- [x] done\n- [ ] open\n   - deep");
    expect(list).toMatchObject({ kind: "list", items: [{ done: true }, { done: false, nested: [{ kind: "list" }] }] });
  });

  test("only harmless addresses become links", () => {
    expect(safeHref("https://example.org")).not.toBeNull();
    expect(safeHref("/app/runs")).not.toBeNull();
    expect(["javascript:alert(1)", "data:text/html,x", "//evil.example", " JaVaScRiPt:x"].map(safeHref)).toEqual([null, null, null, null]);
    expect(parseInline("[x](javascript:alert(1))").every((part) => part.kind === "text")).toBe(true);
    expect(parseInline("see https://example.org now")[1]).toMatchObject({ kind: "link" });
  });

  test("markup never becomes HTML", () => {
    expect(parseInline("<img src=x onerror=alert(1)>")).toEqual([{ kind: "text", text: "<img src=x onerror=alert(1)>" }]);
  });

  test("marks that open in vain take time in proportion", () => {
    const hostile = ["[", "[](", "![[", "**", "*a", "__", "_a ", "~~", "`", "``` ", "> ", "- ", "#", "# ", "|", "-", " ", "http://", "[a](b", "*a_b~~[c`"];
    for (const part of hostile) {
      for (const text of [part.repeat(100_000), `# ${part.repeat(50_000)}x`, `|\n${part.repeat(100_000)}x`, `a${part.repeat(50_000)}](/x)`]) {
        const began = performance.now();
        parseMarkdown(text);
        // Linear reading takes some milliseconds; the square took minutes.
        expect(performance.now() - began).toBeLessThan(10_000);
      }
    }
    const steps = Array.from({ length: 3000 }, (_, depth) => `${" ".repeat(2 * depth)}- deep`).join("\n");
    expect(parseMarkdown(steps)).toHaveLength(1);
  }, 120_000);

  test("links, emphasis and code are read as before", () => {
    expect(parseInline("[a *b*](/c) **d _e_** ``f`g`` *h*")).toEqual([
      { kind: "link", href: "/c", children: [{ kind: "text", text: "a " }, { kind: "em", children: [{ kind: "text", text: "b" }] }] },
      { kind: "text", text: " " },
      { kind: "strong", children: [{ kind: "text", text: "d " }, { kind: "em", children: [{ kind: "text", text: "e" }] }] },
      { kind: "text", text: " " },
      { kind: "code", text: "f`g" },
      { kind: "text", text: " " },
      { kind: "em", children: [{ kind: "text", text: "h" }] },
    ]);
    expect(parseInline("a_b_c 2 * 3 * 4 [x] (y) ** ~~")).toEqual([{ kind: "text", text: "a_b_c 2 * 3 * 4 [x] (y) ** ~~" }]);
    expect(parseMarkdown("# Title ##  ")).toEqual([{ kind: "heading", level: 1, children: [{ kind: "text", text: "Title" }] }]);
  });

  test("marks inside a line", () => {
    expect(parseInline("`a` ~~b~~ __c__ _d_").map((part) => part.kind)).toEqual(["code", "text", "del", "text", "strong", "text", "em"]);
  });
});

describe("files", () => {
  test("a name chooses the viewer", () => {
    expect(["a.log", "MLmodel", "x.JSON", "a/b.md", "p.png", "t.tsv", "d.parquet", "s.wav", "v.mp4", "r.html", "w.bin", "noend"].map(viewerOf)).toEqual([
      "text", "text", "json", "markdown", "image", "table", "parquet", "audio", "video", "html", "none", "none",
    ]);
  });

  test("paths are taken apart and escaped part by part", () => {
    expect(parents("a/b/c.txt")).toEqual(["a", "a/b"]);
    expect([baseName("a/b.txt"), folderName("a/b.txt"), folderName("b.txt")]).toEqual(["b.txt", "a", ""]);
    expect(escapePath("a b/c#d?.txt")).toBe("a%20b/c%23d%3F.txt");
  });
});

describe("searching names", () => {
  test("by words, by pattern, and by letters in order", () => {
    expect(["train/loss", "val/loss", "acc"].filter(matcher("loss tr"))).toEqual(["train/loss"]);
    expect(["train/loss", "val/loss", "acc"].filter(matcher("^(train|acc)"))).toEqual(["train/loss", "acc"]);
    expect(["a(b", "c"].filter(matcher("a(b"))).toEqual(["a(b"]);
    expect(score("tl", "train/loss")).not.toBeNull();
    expect(score("zz", "train/loss")).toBeNull();
    expect(best("acc", ["macc", "accuracy", "x"], (name) => name)).toEqual(["accuracy", "macc"]);
    expect(best("", ["b", "a"], (name) => name)).toEqual(["b", "a"]);
  });
});

describe("words for events", () => {
  const event = { kind: "run.finished", actor: "ada", subject: "run", subject_id: "f".repeat(32), data: { status: "FAILED", experiment_id: "3", deep: { a: 1 } } };

  test("what, to what, and what else", () => {
    expect([verbOf("run.finished"), verbOf("planet.moved_on")]).toEqual(["ended", "planet moved on"]);
    expect(objectOf({ ...event, subject: "package", subject_id: "7".repeat(64) })).toBe("77777777");
    expect(verbOf("lease.shaken")).toBe("repaired the reservation of");
    expect([objectOf(event), objectOf({ ...event, data: { name: "calm-hen" } }), objectOf({ ...event, subject_id: "food11" })]).toEqual(["ffffffff", "calm-hen", "food11"]);
    expect(detailOf(event)).toBe('status FAILED · deep {"a":1}');
    expect(detailOf({ ...event, data: { params: [], tags: ["a", "b"], sha256: "0f".repeat(32) } })).toBe("tags a, b · sha256 0f0f0f0f0f0f");
  });

  test("each leads to its page, if it still has one", () => {
    expect(pageOf(event)).toBe(`/app/runs/${"f".repeat(32)}`);
    expect(pageOf({ subject: "experiment", subject_id: "3", kind: "experiment.created" })).toBe("/app/runs?exp=3");
    expect(pageOf({ subject: "model_version", subject_id: "my model/3", kind: "model_version.created" })).toBe("/app/models/my%20model");
    expect(pageOf({ subject: "lease", subject_id: "L1", kind: "lease.crossed" })).toBe("/app/leases?lease=L1");
    expect(pageOf({ ...event, kind: "run.purged" })).toBeNull();
    expect(pageOf({ subject: "token", subject_id: "x", kind: "token.created" })).toBeNull();
  });
});

describe("facts of a run", () => {
  test("a commit is linked where the repository is on the web", () => {
    expect(commitAddress("git@github.com:team/repo.git", "abc")).toBe("https://github.com/team/repo/commit/abc");
    expect(commitAddress("https://user:secret@gitlab.example.org/a/b.git#sub", "abc")).toBe("https://gitlab.example.org/a/b/commit/abc");
    expect(commitAddress("/home/ada/repo", "abc")).toBeNull();
    expect(commitAddress(undefined, "abc")).toBeNull();
  });

  test("sources are read from tags", () => {
    const tags = tagMap([{ key: "mlflow.source.name", value: "train.py" }, { key: "mlflow.source.git.commit", value: "abc" }]);
    expect(sourceFacts(tags)).toEqual({ name: "train.py", kind: null, commit: "abc", branch: null, link: null });
    expect(sourceFacts(tagMap(undefined)).commit).toBeNull();
  });
});

describe("the command of a button", () => {
  test("words are quoted for the shell", () => {
    expect([shell("plain-word"), shell("two words"), shell("it's")]).toEqual(["plain-word", "'two words'", "'it'\\''s'"]);
  });

  test("commands go as the terminal takes them", () => {
    expect(yard.runs({ experiments: ["food 11"], filter: "metrics.a > 1", order: ["metrics.a DESC"], deleted: true })).toBe("yard runs -e 'food 11' -f 'metrics.a > 1' -o 'metrics.a DESC' --deleted");
    expect(yard.tag(["r1"], "team", "a b")).toBe("yard edit r1 --tag 'team=a b'");
    expect(yard.alias("food11", "3", "champion")).toBe("yard alias food11 champion 3");
    expect(yard.unalias("food11", "champion")).toBe("yard alias food11 champion --remove");
    expect(yard.editModel("food11/3", "--stage", "Production")).toBe("yard edit --model food11/3 --stage Production");
    expect(yard.register("r1", "model", "food11")).toBe("yard register r1 model food11");
    expect(yard.newExperiment("a b")).toBe("yard experiments --create 'a b'");
    expect([yard.note("r", "x"), yard.rename("r", "y"), yard.remove(["r"]), yard.restore(["r"]), yard.untag(["r"], "k")].join("; ")).toBe(
      "yard edit r --note x; yard edit r --name y; yard edit r --delete; yard edit r --restore; yard edit r --untag k",
    );
    expect([yard.show("r"), yard.diff(["a", "b"]), yard.models(), yard.models("m"), yard.events(), yard.events("r"), yard.experiments(), yard.token(), yard.editExperiment("e", "--delete")].join("; ")).toBe(
      "yard show r; yard diff a b; yard models; yard models m; yard events; yard events --run r; yard experiments; yard token create; yard edit --experiment e --delete",
    );
  });

  test("many ids are cut short", () => {
    expect(few(["a", "b", "c"], 2)).toEqual(["a", "b", "…"]);
    expect(few(["a"])).toEqual(["a"]);
  });
});
