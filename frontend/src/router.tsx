/** The addresses of the pages. Each page is loaded when it is first opened. */
import { createRootRoute, createRoute, createRouter, lazyRouteComponent, redirect, Outlet, retainSearchParams } from "@tanstack/react-router";

import { BASE, serverBack } from "./api/client";
import { formatQuery, parseQuery } from "./lib/address";
import { pageOf } from "./lib/mlflow-link";
import { Shell } from "./features/shell/shell";
import { NotFound, PageFault } from "./features/shell/faults";

type Words = Record<string, string>;
const words = (search: Record<string, unknown>): Words =>
  Object.fromEntries(Object.entries(search).map(([key, value]) => [key, String(value)]));

/** A page's code, loaded when it is first wanted. While the server is away it waits for it, instead of failing for good. */
function page<T extends Record<string, unknown>, Name extends keyof T>(load: () => Promise<T>, name: Name) {
  const patient = (): Promise<T> =>
    load().catch(async () => {
      await serverBack();
      // Some browsers remember that a script was missing, and a new version names its scripts anew.
      return load().catch(() => {
        window.location.reload();
        return new Promise<T>(() => undefined);
      });
    });
  return lazyRouteComponent(patient, name);
}

const root = createRootRoute({ component: Outlet, notFoundComponent: NotFound });
const signIn = createRoute({ getParentRoute: () => root, path: "/signin", component: page(() => import("./features/shell/sign-in"), "SignIn") });
const start = createRoute({
  getParentRoute: () => root,
  path: "/",
  beforeLoad: () => {
    // Stock MLflow clients print addresses of this form after each run.
    throw redirect({ to: pageOf(window.location.hash), replace: true });
  },
});
const app = createRoute({
  getParentRoute: () => root,
  path: "/app",
  component: Shell,
  notFoundComponent: NotFound,
  validateSearch: (search: Record<string, unknown>): { team?: string } => (typeof search.team === "string" && search.team !== "" ? { team: search.team } : {}),
  // The team goes with every link, so that an address means the same to whoever opens it.
  search: { middlewares: [retainSearchParams(["team"])] },
});

const home = createRoute({
  getParentRoute: () => app,
  path: "home",
  component: page(() => import("./pages/home/home"), "HomePage"),
});
const experiments = createRoute({
  getParentRoute: () => app,
  path: "experiments",
  validateSearch: words,
  component: page(() => import("./pages/experiments/experiments"), "ExperimentsPage"),
});
const runs = createRoute({
  getParentRoute: () => app,
  path: "runs",
  validateSearch: words,
  component: page(() => import("./pages/runs/runs"), "RunsPage"),
});
const run = createRoute({
  getParentRoute: () => app,
  path: "runs/$runId",
  validateSearch: words,
  component: page(() => import("./pages/run/run"), "RunPage"),
});
const compare = createRoute({
  getParentRoute: () => app,
  path: "compare",
  validateSearch: words,
  component: page(() => import("./pages/compare/compare"), "ComparePage"),
});
const models = createRoute({
  getParentRoute: () => app,
  path: "models",
  validateSearch: words,
  component: page(() => import("./pages/models/models"), "ModelsPage"),
});
const model = createRoute({
  getParentRoute: () => app,
  path: "models/$name",
  validateSearch: words,
  component: page(() => import("./pages/models/model"), "ModelPage"),
});
const data = createRoute({
  getParentRoute: () => app,
  path: "data",
  validateSearch: words,
  component: page(() => import("./pages/data/data"), "DataPage"),
});
const dataSet = createRoute({
  getParentRoute: () => app,
  path: "data/$name",
  validateSearch: words,
  component: page(() => import("./pages/data/data-set"), "DataSetPage"),
});
const queue = createRoute({
  getParentRoute: () => app,
  path: "queue",
  validateSearch: words,
  component: page(() => import("./pages/queue/queue"), "QueuePage"),
});
const job = createRoute({
  getParentRoute: () => app,
  path: "jobs/$jobId",
  validateSearch: words,
  component: page(() => import("./pages/job/job"), "JobPage"),
});
const submit = createRoute({
  getParentRoute: () => app,
  path: "submit",
  validateSearch: words,
  component: page(() => import("./pages/submit/submit"), "SubmitPage"),
});
const plan = createRoute({
  getParentRoute: () => app,
  path: "plan",
  validateSearch: words,
  component: page(() => import("./pages/plan/plan"), "PlanPage"),
});
const sweeps = createRoute({
  getParentRoute: () => app,
  path: "sweeps",
  validateSearch: words,
  component: page(() => import("./pages/sweeps/sweeps"), "SweepsPage"),
});
const sweep = createRoute({
  getParentRoute: () => app,
  path: "sweeps/$sweepId",
  validateSearch: words,
  component: page(() => import("./pages/sweeps/sweep"), "SweepPage"),
});
const nodes = createRoute({
  getParentRoute: () => app,
  path: "nodes",
  validateSearch: words,
  component: page(() => import("./pages/cluster/cluster"), "ClusterPage"),
});
const leases = createRoute({
  getParentRoute: () => app,
  path: "leases",
  validateSearch: words,
  component: page(() => import("./pages/leases/leases"), "LeasesPage"),
});
const usage = createRoute({
  getParentRoute: () => app,
  path: "usage",
  validateSearch: words,
  component: page(() => import("./pages/usage/usage"), "UsagePage"),
});
const fleet = createRoute({
  getParentRoute: () => app,
  path: "fleet",
  validateSearch: words,
  component: page(() => import("./pages/fleet/fleet"), "FleetPage"),
});
const alerts = createRoute({
  getParentRoute: () => app,
  path: "alerts",
  validateSearch: words,
  component: page(() => import("./pages/alerts/alerts"), "AlertsPage"),
});
const events = createRoute({
  getParentRoute: () => app,
  path: "log",
  validateSearch: words,
  component: page(() => import("./pages/log/log"), "LogPage"),
});
const logbook = createRoute({
  getParentRoute: () => app,
  path: "logbook",
  validateSearch: words,
  component: page(() => import("./pages/logbook/logbook"), "LogbookPage"),
});
const reports = createRoute({
  getParentRoute: () => app,
  path: "reports",
  validateSearch: words,
  component: page(() => import("./pages/reports/reports"), "ReportsPage"),
});
const report = createRoute({
  getParentRoute: () => app,
  path: "reports/$reportId",
  validateSearch: words,
  component: page(() => import("./pages/reports/report"), "ReportPage"),
});
const settings = createRoute({
  getParentRoute: () => app,
  path: "settings",
  validateSearch: words,
  component: page(() => import("./pages/settings/settings"), "SettingsPage"),
});

export const router = createRouter({
  routeTree: root.addChildren([
    signIn,
    start,
    app.addChildren([
      home,
      experiments,
      runs,
      run,
      compare,
      models,
      model,
      data,
      dataSet,
      queue,
      job,
      submit,
      plan,
      sweeps,
      sweep,
      nodes,
      leases,
      alerts,
      usage,
      fleet,
      events,
      settings,
      logbook,
      reports,
      report,
    ]),
  ]),
  basepath: BASE === "" ? "/" : BASE,
  parseSearch: parseQuery,
  stringifySearch: formatQuery,
  defaultErrorComponent: PageFault,
  defaultNotFoundComponent: NotFound,
  defaultPendingMs: 300,
});
