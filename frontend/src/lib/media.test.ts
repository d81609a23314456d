// @vitest-environment node
import { describe, expect, test } from "vitest";

import { atStep, histogram, mediaOf, readImageName, readTable, stepsOf } from "./media";

const name = (key: string, step: number, sign = "+", end = ".png"): string => `images/${key}${sign}step${sign}${step}${sign}timestamp${sign}17${step}${sign}0a-1${end}`;

describe("media of a run", () => {
  test("logged images are known by key and step, in both spellings, with their small copies", () => {
    expect(readImageName(name("val~digit", 3))).toMatchObject({ key: "val/digit", step: 3, isSmall: false });
    const media = mediaOf([name("a", 20), name("a", 0, "%"), name("a", 20, "+", "+compressed.webp"), "plot.png", "eval.json", "x.wav", "y.mp4", "fig.html", "notes.md"]);
    expect(media.images.get("a")?.map((image) => [image.step, image.small !== null])).toEqual([[0, false], [20, true]]);
    expect([media.pictures, media.tables, media.sounds, media.films, media.pages, media.texts]).toEqual([["plot.png"], ["eval.json"], ["x.wav"], ["y.mp4"], ["fig.html"], ["notes.md"]]);
    expect(stepsOf([media])).toEqual([0, 20]);
    expect(atStep(media.images.get("a") ?? [], 19).map((image) => image.step)).toEqual([0]);
    expect(atStep(media.images.get("a") ?? [], -1)).toEqual([]);
  });

  test("tables are read as log_table writes them; other JSON is none", () => {
    expect(readTable('{"columns":["q","score"],"data":[["hi",0.5],["ho",null]]}')).toEqual({ head: ["q", "score"], rows: [["hi", "0.5"], ["ho", ""]] });
    expect(readTable('[{"a":1},{"a":2,"b":"x"}]')).toEqual({ head: ["a", "b"], rows: [["1", ""], ["2", "x"]] });
    expect(readTable('{"lr":1}')).toBeNull();
    expect(readTable("{")).toBeNull();
  });

  test("a column of numbers has a histogram", () => {
    expect(histogram(["0", "1", "1", "2"], 2)).toEqual({ from: 0, to: 2, counts: [1, 3] });
    expect(histogram(["a", "1"])).toBeNull();
  });
});
