/**
 * The first script of every page: asks the server for what the page will show, while the page's own code is
 * still on its way. Small on purpose; knows nothing of how things look.
 */
import { ask, holdAhead, holdSession } from "./api/client";
import { EXPERIMENTS, NAMES, SESSION, TABLE, tableQueryOf } from "./api/table-wish";
import { wantedTeam } from "./api/team";
import { parseQuery } from "./lib/address";
import { readView } from "./lib/view";
import { firstWish } from "./pages/runs/first";

/** Ask for the first rows of the runs page. */
async function askRuns(): Promise<void> {
  const view = readView(parseQuery(window.location.search));
  let ids = view.experiments;
  if (ids.length === 0) {
    const found = JSON.parse((await ask(EXPERIMENTS)) ?? "{}") as { experiments?: { experiment_id: string }[] };
    ids = (found.experiments ?? []).map((one) => one.experiment_id).toSorted();
  }
  if (ids.length === 0) {
    return;
  }
  const none = { metrics: [], params: [] };
  // Only what the rows need: the rest may be asked for while they are being drawn.
  const names = view.columns !== null ? none : (JSON.parse((await ask(NAMES, { experiment_id: ids })) ?? "null") as typeof none | null);
  await ask(TABLE, tableQueryOf(firstWish(view, ids, names ?? none)));
}

const { pathname } = window.location;
if (!pathname.endsWith("/signin")) {
  holdSession({ csrf: null, team: wantedTeam() });
  void ask(SESSION);
}
if (/\/app\/runs\/?$/.test(pathname)) {
  for (const found of document.querySelectorAll<HTMLLinkElement>('link[rel="yard-runs"]')) {
    const link = document.createElement("link");
    link.rel = "modulepreload";
    link.crossOrigin = "";
    link.href = found.href;
    document.head.append(link);
  }
  holdAhead(askRuns());
}
