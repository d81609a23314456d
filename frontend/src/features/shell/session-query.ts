/** Who is signed in, as it is cached. */
import { queryOptions } from "@tanstack/react-query";

import { Fault } from "../../api/client";
import { loadSession } from "../../api/session";

/** Milliseconds between two calls of a server that is away. */
const AGAIN = 2000;

export const sessionQuery = queryOptions({
  queryKey: ["session"],
  queryFn: loadSession,
  staleTime: 60_000,
  retry: false,
  // A server that is away comes back: ask until it answers.
  refetchInterval: ({ state }) => (state.error instanceof Fault && state.error.passing ? AGAIN : false),
});
