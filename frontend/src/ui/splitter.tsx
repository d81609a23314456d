/** Two surfaces with an edge between them that can be dragged, or moved with arrow keys. */
import { useRef, useState, type KeyboardEvent, type PointerEvent, type ReactElement, type ReactNode } from "react";

interface Props {
  share: number;
  left: ReactNode;
  right: ReactNode;
  onChange: (share: number) => void;
}

const within = (share: number): number => Math.min(85, Math.max(15, share));

export function Splitter({ share, left, right, onChange }: Props): ReactElement {
  const box = useRef<HTMLDivElement>(null);
  const [dragged, setDragged] = useState<number | null>(null);
  const now = dragged ?? share;
  const at = (event: PointerEvent): number => {
    const size = box.current?.getBoundingClientRect();
    return size === undefined ? now : within(((event.clientX - size.left) / size.width) * 100);
  };
  const keys = (event: KeyboardEvent): void => {
    if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      event.preventDefault();
      onChange(within(share + (event.key === "ArrowLeft" ? -4 : 4)));
    }
  };
  return (
    <div ref={box} className="split" style={{ gridTemplateColumns: `minmax(0, ${now}fr) 7px minmax(0, ${100 - now}fr)` }}>
      <div className="split-side">{left}</div>
      {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-element-interactions -- a focusable separator is a widget */}
      <div
        role="separator"
        aria-orientation="vertical"
        aria-label="Between table and charts"
        aria-valuenow={Math.round(now)}
        aria-valuemin={15}
        aria-valuemax={85}
        // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a focusable separator is a widget
        tabIndex={0}
        className="split-edge"
        onKeyDown={keys}
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId);
          setDragged(at(event));
        }}
        onPointerMove={(event) => dragged !== null && setDragged(at(event))}
        onPointerUp={(event) => {
          onChange(at(event));
          setDragged(null);
        }}
      />
      <div className="split-side">{right}</div>
    </div>
  );
}
