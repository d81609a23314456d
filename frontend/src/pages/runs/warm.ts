/** What the runs page needs for its first drawing, taken from what was asked for ahead. */
import type { QueryClient } from "@tanstack/react-query";

import { experimentsQuery, namesQuery } from "../../api/runs";
import { parseQuery } from "../../lib/address";
import { readView } from "../../lib/view";

/** Have the names of experiments and columns at hand. */
export async function warmRuns(client: QueryClient): Promise<void> {
  const view = readView(parseQuery(window.location.search));
  const ids = view.experiments.length > 0 ? view.experiments : (await client.fetchQuery(experimentsQuery())).map((one) => one.experiment_id).toSorted();
  if (view.columns === null && ids.length > 0) {
    await client.prefetchQuery(namesQuery(ids));
  }
}
