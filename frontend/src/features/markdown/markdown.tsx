/** Markdown drawn as elements: nothing in it can run. */
import { Fragment, useMemo, type ReactElement, type ReactNode } from "react";

import { parseMarkdown, type Block, type Inline } from "../../lib/markdown";

/** Draws a code block in a way of its own; null leaves it as code. */
export type DrawCode = (language: string, text: string) => ReactNode;

export function Markdown({ text, code }: { text: string; code?: DrawCode }): ReactElement {
  const blocks = useMemo(() => parseMarkdown(text), [text]);
  return <div className="markdown">{blocks.map((block, at) => drawBlock(block, at, code))}</div>;
}

function drawInline(part: Inline, at: number): ReactNode {
  switch (part.kind) {
    case "text":
      return part.text;
    case "code":
      return <code key={at}>{part.text}</code>;
    case "link":
      return (
        <a key={at} href={part.href} rel="noreferrer noopener" target="_blank">
          {part.children.map(drawInline)}
        </a>
      );
    case "strong":
      return <strong key={at}>{part.children.map(drawInline)}</strong>;
    case "em":
      return <em key={at}>{part.children.map(drawInline)}</em>;
    default:
      return <del key={at}>{part.children.map(drawInline)}</del>;
  }
}

function drawBlock(block: Block, at: number, code?: DrawCode): ReactNode {
  switch (block.kind) {
    case "heading": {
      const Head = block.level <= 1 ? "h2" : "h3";
      return <Head key={at}>{block.children.map(drawInline)}</Head>;
    }
    case "paragraph":
      return <p key={at}>{block.children.map(drawInline)}</p>;
    case "code":
      return <Fragment key={at}>{code?.(block.language, block.text) ?? <pre>{block.text}</pre>}</Fragment>;
    case "quote":
      return <blockquote key={at}>{block.children.map((child, place) => drawBlock(child, place, code))}</blockquote>;
    case "rule":
      return <hr key={at} />;
    case "table":
      return <DrawnTable key={at} block={block} />;
    default:
      return <DrawnList key={at} block={block} />;
  }
}

function DrawnTable({ block }: { block: Extract<Block, { kind: "table" }> }): ReactElement {
  return (
    <table className="plain">
      <thead>
        <tr>
          {block.head.map((cell, at) => (
            <th key={at}>{cell.map(drawInline)}</th>
          ))}
        </tr>
      </thead>
      <tbody>
        {block.rows.map((row, line) => (
          <tr key={line}>
            {row.map((cell, at) => (
              <td key={at}>{cell.map(drawInline)}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function DrawnList({ block }: { block: Extract<Block, { kind: "list" }> }): ReactElement {
  const items = block.items.map((item, at) => (
    <li key={at} style={item.done === null ? undefined : { listStyle: "none", marginLeft: -18 }}>
      {item.done !== null && <input type="checkbox" checked={item.done} readOnly disabled aria-label={item.done ? "done" : "open"} />} {item.children.map(drawInline)}
      {item.nested.map((child, place) => drawBlock(child, place))}
    </li>
  ));
  return block.ordered ? <ol>{items}</ol> : <ul>{items}</ul>;
}
