/** The team a page is about: the one its address names, else the one this browser looked at last. */

const KEY = "yard.team";

/** The team that the address names. */
export function addressedTeam(): string | null {
  return new URLSearchParams(window.location.search).get("team") || null;
}

function rememberedTeam(): string | null {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

/** The team to ask for. */
export function wantedTeam(): string | null {
  return addressedTeam() ?? rememberedTeam();
}

export function rememberTeam(team: string): void {
  localStorage.setItem(KEY, team);
}

export function forgetTeam(): void {
  localStorage.removeItem(KEY);
}
