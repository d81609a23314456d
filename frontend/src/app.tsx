/** Puts the pages together: cache, live stream, router. */
import { MutationCache, QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { useEffect, type ReactElement } from "react";

import { askedAll, Fault } from "./api/client";
import { follow } from "./api/live";
import { sessionQuery } from "./features/shell/session-query";
import { warmRuns } from "./pages/runs/warm";
import { router } from "./router";
import { Toasts } from "./ui/toast";

const client = new QueryClient({
  mutationCache: new MutationCache(),
  defaultOptions: {
    queries: {
      staleTime: 2000,
      refetchOnWindowFocus: true,
      retry: (count, error) => (error instanceof Fault ? error.passing && count < 3 : count < 1),
    },
  },
});

/** Milliseconds for which the first drawing waits for its rows; then the frame is drawn without them. */
const PATIENCE = 250;
const waited = (patience: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, patience));

/** Have the session and the page's code at hand, so that the first drawing is the page itself. */
export async function prepare(): Promise<void> {
  const isSignIn = window.location.pathname.endsWith("/signin");
  // One try: where there is no session, or no server, the frame says so and tries again.
  const session = isSignIn ? Promise.resolve() : client.prefetchQuery(sessionQuery);
  const isRuns = /\/app\/runs\/?$/.test(window.location.pathname);
  const rows = isRuns ? Promise.race([askedAll().then(() => warmRuns(client)), waited(PATIENCE)]) : Promise.resolve();
  await Promise.all([session, router.load(), rows].map((one) => one.catch(() => undefined)));
}

export function App(): ReactElement {
  useEffect(() => follow(client), []);
  return (
    <QueryClientProvider client={client}>
      <RouterProvider router={router} />
      <Toasts />
    </QueryClientProvider>
  );
}
