/** What runs made to look at or listen to: images with runs as rows over a step slider, tables, figures, sound, film, text. */
import { useQueries, useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useState, type ReactElement, type ReactNode } from "react";

import { allFilesQuery, previewAddress, textQuery } from "../../api/artifacts";
import { count, grouped } from "../../lib/format";
import { atStep, caption, mediaOf, readTable, stepsOf, type Media } from "../../lib/media";
import { matcher } from "../../lib/search";
import { Dialog } from "../../ui/menu";
import { ErrorCard, Skeleton } from "../../ui/parts";
import { FileView } from "../artifacts/file-view";
import { ValueTable } from "../artifacts/value-table";
import { InSight } from "../chart/panels";
import "../artifacts/artifacts.css";
import "./media.css";

const Lines = lazy(() => import("../artifacts/lines").then((found) => ({ default: found.Lines })));

export interface MediaRun {
  id: string;
  name: string;
  artifactUri: string;
  colour?: string | undefined;
}

export function MediaView({ runs }: { runs: readonly MediaRun[] }): ReactElement {
  const found = useQueries({ queries: runs.map((run) => allFilesQuery(run.id)) });
  const [search, setSearch] = useState("");
  const [large, setLarge] = useState<{ run: string; path: string } | null>(null);
  const fault = found.find((one) => one.error !== null)?.error ?? null;
  if (fault !== null) {
    return <ErrorCard title="The files could not be listed" error={fault} retry={() => found.forEach((one) => void one.refetch())} />;
  }
  if (found.some((one) => one.data === undefined)) {
    return <Skeleton />;
  }
  const all = found.map((one) => mediaOf((one.data?.paths ?? []).filter(matcher(search))));
  const isCut = found.some((one) => one.data?.cut === true);
  const none = all.every((media) => Object.values(media as unknown as Record<string, Media["images"] | string[]>).every((part) => (part instanceof Map ? part.size : part.length) === 0));
  const of = (part: Exclude<keyof Media, "images">): { run: MediaRun; path: string }[] => runs.flatMap((run, at) => (all[at]?.[part] ?? []).map((path) => ({ run, path })));
  return (
    <div className="page-body media">
      <div className="row wrap">
        <input className="field" type="search" aria-label="Find media" placeholder="Find media" value={search} onChange={(event) => setSearch(event.target.value)} />
        {isCut && <span className="faint">Only the first files are shown; the Artifacts tab has all of them.</span>}
      </div>
      {none && search === "" && <NoMedia />}
      {none && search !== "" && <p className="faint">No file has that name.</p>}
      <ImageGrid runs={runs} all={all} onOpen={(run, path) => setLarge({ run, path })} />
      <Part title="Figures and pictures" items={of("pictures")}>
        {({ run, path }) => (
          <button type="button" className="media-picture" onClick={() => setLarge({ run: run.id, path })} title={path}>
            <img loading="lazy" src={previewAddress(run.id, path)} alt={path} />
          </button>
        )}
      </Part>
      <Part title="Tables" items={of("tables")} wide>
        {({ run, path }) => <TableFile run={run} path={path} />}
      </Part>
      <Part title="Interactive figures" items={of("pages")} wide>
        {({ run, path }) => <FileView run={run.id} artifactUri={run.artifactUri} path={path} size={0} />}
      </Part>
      <Part title="Sound" items={of("sounds")}>
        {({ run, path }) => <FileView run={run.id} artifactUri={run.artifactUri} path={path} size={0} />}
      </Part>
      <Part title="Video" items={of("films")}>
        {({ run, path }) => <FileView run={run.id} artifactUri={run.artifactUri} path={path} size={0} />}
      </Part>
      <Part title="Text" items={of("texts")} wide>
        {({ run, path }) => <TextFile run={run} path={path} />}
      </Part>
      {large !== null && (
        <Dialog title={caption(large.path)} wide onClose={() => setLarge(null)}>
          <img className="media-large" src={previewAddress(large.run, large.path)} alt={large.path} />
        </Dialog>
      )}
    </div>
  );
}

function NoMedia(): ReactElement {
  return (
    <div className="empty">
      <h2>No media yet</h2>
      <p className="muted">Images by step, tables and figures that a run logs appear here:</p>
      <pre>{`mlflow.log_image(image, key="samples", step=step)
mlflow.log_table(predictions, artifact_file="predictions.json")
mlflow.log_figure(figure, "confusion.png")`}</pre>
    </div>
  );
}

/** Images by key: runs are rows, the images of a step their cells; one slider for all of it. */
function ImageGrid({ runs, all, onOpen }: { runs: readonly MediaRun[]; all: readonly Media[]; onOpen: (run: string, path: string) => void }): ReactElement | null {
  const steps = stepsOf(all);
  const [chosen, setChosen] = useState<number | null>(null);
  if (steps.length === 0) {
    return null;
  }
  const place = chosen === null ? steps.length - 1 : Math.min(chosen, steps.length - 1);
  const step = steps[place] ?? 0;
  const keys = [...new Set(all.flatMap((media) => [...media.images.keys()]))].toSorted();
  return (
    <section className="card" aria-label="Images">
      <div className="card-head">
        <h2>Images</h2>
        <span className="faint grow">{count(keys.length, "key")}</span>
        <label className="row media-slider">
          <span className="muted">Step {grouped(step)}</span>
          <input type="range" aria-label="Step" min={0} max={steps.length - 1} value={place} disabled={steps.length < 2} onChange={(event) => setChosen(Number(event.target.value))} />
          <span className="faint">of {grouped(steps.at(-1) ?? 0)}</span>
        </label>
      </div>
      {keys.map((key) => (
        <div key={key} className="media-key">
          <h3>{key}</h3>
          {runs.map((run, at) => {
            const images = atStep(all[at]?.images.get(key) ?? [], step);
            return (
              <div key={run.id} className="media-row">
                {runs.length > 1 && (
                  <span className="media-run clip" title={run.name}>
                    <span className="dot" style={{ background: run.colour }} /> {run.name}
                  </span>
                )}
                {images.length === 0 && <span className="faint">none up to this step</span>}
                {images.map((image) => (
                  <button key={image.path} type="button" className="media-thumb" title={`${key}, step ${grouped(image.step)}`} onClick={() => onOpen(run.id, image.path)}>
                    <img loading="lazy" src={previewAddress(run.id, image.small ?? image.path)} alt={`${key} of ${run.name} at step ${image.step}`} />
                    {image.step !== step && <span className="faint">step {grouped(image.step)}</span>}
                  </button>
                ))}
              </div>
            );
          })}
        </div>
      ))}
    </section>
  );
}

interface Item {
  run: MediaRun;
  path: string;
}

function Part({ title, items, wide = false, children }: { title: string; items: readonly Item[]; wide?: boolean; children: (item: Item) => ReactNode }): ReactElement | null {
  const several = new Set(items.map(({ run }) => run.id)).size > 1;
  return items.length === 0 ? null : (
    <section className="card" aria-label={title}>
      <div className="card-head">
        <h2>{title}</h2>
        <span className="faint">{items.length}</span>
      </div>
      <div className={`media-items${wide ? " wide" : ""}`}>
        {items.map((item) => (
          <figure key={`${item.run.id}/${item.path}`}>
            <figcaption className="clip" title={item.path}>
              {several && <b>{item.run.name} </b>}
              {item.path}
            </figcaption>
            <InSight height={wide ? 80 : 60}>{children(item)}</InSight>
          </figure>
        ))}
      </div>
    </section>
  );
}

/** A table of log_table; other JSON is shown as what it is. */
function TableFile({ run, path }: Item): ReactElement {
  const isJson = path.endsWith(".json");
  const { data } = useQuery({ ...textQuery(run.artifactUri, path), enabled: isJson });
  if (!isJson) {
    return <FileView run={run.id} artifactUri={run.artifactUri} path={path} size={0} />;
  }
  if (data === undefined) {
    return <Skeleton rows={3} />;
  }
  const table = data.cut ? null : readTable(data.text);
  return table === null ? (
    <Suspense fallback={<Skeleton rows={2} />}>
      <Lines text={data.text.slice(0, 4000)} />
    </Suspense>
  ) : (
    <ValueTable head={table.head} rows={table.rows} />
  );
}

function TextFile({ run, path }: Item): ReactElement {
  return <FileView run={run.id} artifactUri={run.artifactUri} path={path} size={0} />;
}
