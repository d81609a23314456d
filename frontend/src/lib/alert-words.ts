/** How incidents are shown: their state as word, icon and colour, and where they lead. Pure. */

export interface IncidentLike {
  state: string;
  severity: string;
  subject_kind: string;
  subject_id: string;
  subject_name: string;
}

export interface IncidentState {
  word: string;
  icon: "warn" | "eye" | "tick";
  tone: "red" | "amber" | "blue" | "green";
}

/** An incident's state for people. */
export function incidentState(incident: IncidentLike): IncidentState {
  if (incident.state === "resolved") {
    return { word: "Resolved", icon: "tick", tone: "green" };
  }
  if (incident.state === "acknowledged") {
    return { word: "Acknowledged", icon: "eye", tone: "blue" };
  }
  const isCritical = incident.severity === "critical";
  return { word: isCritical ? "Critical" : "Open", icon: "warn", tone: isCritical ? "red" : "amber" };
}

/** The page about what an incident is about. */
export function incidentPage(incident: IncidentLike): string {
  const id = encodeURIComponent(incident.subject_id);
  switch (incident.subject_kind) {
    case "job":
      return `/app/jobs/${id}`;
    case "run":
      return `/app/runs/${id}`;
    case "node":
      return `/app/nodes?node=${id}`;
    case "lease":
      return "/app/leases";
    default:
      return "/app/alerts";
  }
}

/** What an incident is about, in words. */
export function subjectWords(incident: IncidentLike): string {
  return incident.subject_name === "" ? incident.subject_id : incident.subject_name;
}

/** The lines of an inbox that came since the last look, the oldest first. */
export function freshLines<T extends { id: number; is_read: boolean }>(lines: readonly T[], seen: number): T[] {
  return lines.filter((line) => !line.is_read && line.id > seen).toSorted((a, b) => a.id - b.id);
}
