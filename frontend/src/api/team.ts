/** The team this browser looked at last. Owns its place in the browser's store. */

const KEY = "yard.team";

export function rememberedTeam(): string | null {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

export function rememberTeam(team: string): void {
  localStorage.setItem(KEY, team);
}

export function forgetTeam(): void {
  localStorage.removeItem(KEY);
}
