/** One report: read, edited beside its preview, saved as a file. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useEffect, useRef, useState, type ReactElement, type RefObject } from "react";

import { deleteReport, reportQuery, reportsKey, saveReport, type Report } from "../../api/reports";
import { saveReportHtml } from "../../features/report/export";
import { ReportView } from "../../features/report/report-view";
import { exact } from "../../lib/format";
import { Icon } from "../../ui/icon";
import { Dialog, MenuButton, MenuItem } from "../../ui/menu";
import { Ago, ErrorCard, PageHead, Skeleton } from "../../ui/parts";
import { inLight } from "../../ui/theme";
import { complain, toast } from "../../ui/toast";
import "./reports.css";

export function ReportPage(): ReactElement {
  const { reportId } = useParams({ from: "/app/reports/$reportId" });
  const search = useSearch({ from: "/app/reports/$reportId" });
  const found = useQuery(reportQuery(reportId));
  if (found.data === undefined) {
    return found.error === null ? (
      <Skeleton rows={10} />
    ) : (
      <div className="page-body">
        <ErrorCard title="The report could not be read" error={found.error} retry={() => void found.refetch()} />
      </div>
    );
  }
  return search.edit === "1" ? <Editor key={reportId} start={found.data} /> : <Reader report={found.data} />;
}

const facts = (report: Report): string => `${report.user_name} · saved ${exact(report.changed_ms)}${report.changed_by === report.user_name ? "" : ` by ${report.changed_by}`}`;

function Reader({ report }: { report: Report }): ReactElement {
  const navigate = useNavigate();
  const body = useRef<HTMLDivElement>(null);
  const [asking, setAsking] = useState(false);
  const edit = (): void => void navigate({ to: "/app/reports/$reportId", params: { reportId: report.report_id }, search: { edit: "1" } });
  return (
    <>
      <PageHead
        title={report.title}
        facts={
          <span>
            {report.user_name} · changed <Ago ms={report.changed_ms} />
            {report.changed_by !== report.user_name && ` by ${report.changed_by}`}
          </span>
        }
      >
        <ExportMenu report={report} body={body} />
        <button type="button" className="btn" onClick={() => setAsking(true)}>
          <Icon name="trash" />
          Delete
        </button>
        <button type="button" className="btn primary" onClick={edit}>
          <Icon name="edit" />
          Edit
        </button>
      </PageHead>
      <div className="page-body">
        <article ref={body} className="report">
          <ReportView text={report.text} />
        </article>
      </div>
      {asking && <AskDelete report={report} onClose={() => setAsking(false)} />}
    </>
  );
}

function ExportMenu({ report, body }: { report: Report; body: RefObject<HTMLDivElement | null> }): ReactElement {
  const html = (): void => {
    if (body.current !== null) {
      saveReportHtml(report.title, facts(report), body.current);
    }
  };
  return (
    <MenuButton name="Export" label="Export">
      {(close) => (
        <>
          <MenuItem
            onClick={() => {
              close();
              html();
            }}
          >
            HTML file
          </MenuItem>
          <MenuItem
            onClick={() => {
              close();
              void inLight(() => window.print());
            }}
          >
            PDF (print)
          </MenuItem>
        </>
      )}
    </MenuButton>
  );
}

function AskDelete({ report, onClose }: { report: Report; onClose: () => void }): ReactElement {
  const navigate = useNavigate();
  const client = useQueryClient();
  const [fault, setFault] = useState<unknown>(null);
  const remove = async (): Promise<void> => {
    try {
      await deleteReport(report.report_id);
      void client.invalidateQueries({ queryKey: reportsKey(), exact: true });
      toast(`Deleted “${report.title}”`);
      void navigate({ to: "/app/reports", search: {}, replace: true });
    } catch (cause) {
      setFault(cause);
    }
  };
  return (
    <Dialog title={`Delete “${report.title}”?`} onClose={onClose}>
      <div className="stack">
        <p>The whole team loses it, and it cannot be restored.</p>
        {fault !== null && <ErrorCard title="The report was not deleted" error={fault} />}
        <div className="row" style={{ justifyContent: "flex-end" }}>
          <button type="button" className="btn" onClick={onClose}>
            Cancel
          </button>
          <button type="button" className="btn danger" onClick={() => void remove()}>
            Delete
          </button>
        </div>
      </div>
    </Dialog>
  );
}

/** Blocks that a click puts into the text. */
const PIECES = [
  ["Chart", "```chart\nmetric: loss\norder: started desc\nlimit: 5\n```\n"],
  ["Runs", "```runs\nname: latest\norder: started desc\nlimit: 5\ncolumns: status, duration, started\n```\n"],
  ["Table", "| What | Result |\n|---|---|\n|  |  |\n"],
] as const;

function Editor({ start }: { start: Report }): ReactElement {
  const client = useQueryClient();
  const navigate = useNavigate();
  const area = useRef<HTMLTextAreaElement>(null);
  const [held, setHeld] = useState(start);
  const [title, setTitle] = useState(start.title);
  const [text, setText] = useState(start.text);
  const [fault, setFault] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const dirty = title !== held.title || text !== held.text;
  useLeaveGuard(dirty);
  const leave = (): void => void navigate({ to: "/app/reports/$reportId", params: { reportId: start.report_id }, search: {} });
  const save = async (): Promise<void> => {
    setBusy(true);
    try {
      const saved = await saveReport(held.report_id, title, text, held.version);
      client.setQueryData(reportQuery(held.report_id).queryKey, saved);
      void client.invalidateQueries({ queryKey: reportsKey(), exact: true });
      setHeld(saved);
      setFault(null);
      leave();
    } catch (cause) {
      setFault(cause);
      complain("The report was not saved", cause);
    } finally {
      setBusy(false);
    }
  };
  const insert = (piece: string): void => {
    const at = area.current?.selectionStart ?? text.length;
    const before = text.slice(0, at);
    setText(`${before}${before === "" || before.endsWith("\n") ? "" : "\n"}\n${piece}\n${text.slice(at)}`);
    area.current?.focus();
  };
  return (
    <>
      <PageHead title={<input className="field report-title" aria-label="Title" value={title} maxLength={200} onChange={(event) => setTitle(event.target.value)} />} facts={<span>{dirty ? "not saved yet" : ""}</span>}>
        {PIECES.map(([word, piece]) => (
          <button key={word} type="button" className="btn" title={`Insert a ${word.toLowerCase()} block at the cursor`} onClick={() => insert(piece)}>
            <Icon name="plus" />
            {word}
          </button>
        ))}
        <button type="button" className="btn" onClick={leave}>
          {dirty ? "Discard changes" : "Close"}
        </button>
        <button type="button" className="btn primary" disabled={busy || title.trim() === ""} onClick={() => void save()}>
          Save
        </button>
      </PageHead>
      {fault !== null && <ErrorCard title="The report was not saved" error={fault} />}
      <div className="report-edit">
        <textarea
          ref={area}
          className="field"
          aria-label="Text of the report, in Markdown"
          spellCheck
          value={text}
          onChange={(event) => setText(event.target.value)}
          onKeyDown={(event) => {
            if ((event.ctrlKey || event.metaKey) && event.key === "Enter") {
              event.preventDefault();
              void save();
            }
          }}
        />
        <article className="report" aria-label="Preview">
          <ReportView text={text} />
        </article>
      </div>
    </>
  );
}

/** Closing the tab asks first while something is unsaved. */
function useLeaveGuard(dirty: boolean): void {
  useEffect(() => {
    if (!dirty) {
      return undefined;
    }
    const ask = (event: BeforeUnloadEvent): void => event.preventDefault();
    window.addEventListener("beforeunload", ask);
    return () => window.removeEventListener("beforeunload", ask);
  }, [dirty]);
}
