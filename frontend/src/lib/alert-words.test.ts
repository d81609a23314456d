import { expect, test } from "vitest";

import { freshLines, incidentPage, incidentState, subjectWords } from "./alert-words";

const incident = { state: "open", severity: "warning", subject_kind: "job", subject_id: "j1", subject_name: "calm-hen" };

test("an incident's state is a word, an icon and a colour", () => {
  expect(incidentState(incident)).toEqual({ word: "Open", icon: "warn", tone: "amber" });
  expect(incidentState({ ...incident, severity: "critical" }).tone).toBe("red");
  expect(incidentState({ ...incident, state: "acknowledged" }).word).toBe("Acknowledged");
  expect(incidentState({ ...incident, state: "resolved", severity: "critical" }).tone).toBe("green");
});

test("an incident leads to what it is about", () => {
  expect(incidentPage(incident)).toBe("/app/jobs/j1");
  expect(incidentPage({ ...incident, subject_kind: "node", subject_id: "g/1" })).toBe("/app/nodes?node=g%2F1");
  expect(incidentPage({ ...incident, subject_kind: "budget" })).toBe("/app/alerts");
  expect(subjectWords({ ...incident, subject_name: "" })).toBe("j1");
});

test("only lines that are new and unread are told by the browser", () => {
  const lines = [
    { id: 3, is_read: false },
    { id: 2, is_read: true },
    { id: 1, is_read: false },
  ];
  expect(freshLines(lines, 0).map((line) => line.id)).toEqual([1, 3]);
  expect(freshLines(lines, 1).map((line) => line.id)).toEqual([3]);
});
