/** Puts the pages together: cache, live stream, router. */
import { MutationCache, QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { useEffect, type ReactElement } from "react";

import { Fault } from "./api/client";
import { follow } from "./api/live";
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

export function App(): ReactElement {
  useEffect(() => follow(client), []);
  return (
    <QueryClientProvider client={client}>
      <RouterProvider router={router} />
      <Toasts />
    </QueryClientProvider>
  );
}
