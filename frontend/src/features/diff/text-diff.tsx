/** Two texts side by side, lines that differ marked; long equal stretches are folded. */
import { useMemo, useState, type ReactElement } from "react";

import { diffLines, type DiffLine } from "../../lib/diff";
import { count } from "../../lib/format";

const AROUND = 3;
const MOST = 4000;

type Piece = { kind: "lines"; lines: DiffLine[] } | { kind: "fold"; lines: DiffLine[] };

/** Fold stretches of equal lines, but for a few around each difference. */
export function folded(lines: readonly DiffLine[], around = AROUND): Piece[] {
  const keep = new Uint8Array(lines.length);
  lines.forEach((line, at) => {
    if (line.kind !== "same") {
      keep.fill(1, Math.max(0, at - around), Math.min(lines.length, at + around + 1));
    }
  });
  const pieces: Piece[] = [];
  lines.forEach((line, at) => {
    const kind = keep[at] === 1 ? "lines" : "fold";
    const last = pieces[pieces.length - 1];
    if (last?.kind === kind) {
      last.lines.push(line);
    } else {
      pieces.push({ kind, lines: [line] });
    }
  });
  return pieces;
}

export function TextDiff({ left, right }: { left: string; right: string }): ReactElement {
  const lines = useMemo(() => diffLines(left, right), [left, right]);
  const [open, setOpen] = useState(false);
  const pieces = useMemo(() => (open ? [{ kind: "lines" as const, lines }] : folded(lines)), [lines, open]);
  const changed = lines.filter((line) => line.kind !== "same").length;
  return (
    <>
      <div className="row">
        <span className="muted">{changed === 0 ? "The files are equal." : `${count(changed, "line")} differ.`}</span>
        <button type="button" className="btn quiet small" aria-pressed={open} onClick={() => setOpen(!open)}>
          All lines
        </button>
      </div>
      <div className="diff">
        <table>
          <tbody>
            {pieces.map((piece, at) =>
              piece.kind === "fold" ? (
                <tr key={at}>
                  <td colSpan={4} className="faint" style={{ background: "var(--sunk)" }}>
                    … {count(piece.lines.length, "equal line")}
                  </td>
                </tr>
              ) : (
                piece.lines.slice(0, MOST).map((line, place) => (
                  <tr key={`${at}-${place}`} className={line.kind}>
                    <td className="number">{line.leftNumber}</td>
                    <td className="left">{line.left}</td>
                    <td className="number">{line.rightNumber}</td>
                    <td className="right">{line.right}</td>
                  </tr>
                ))
              ),
            )}
          </tbody>
        </table>
      </div>
    </>
  );
}
