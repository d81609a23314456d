/** Comma-separated values, in and out. Pure. */

/** One cell, quoted where it must be; a leading sign that a spreadsheet would run is disarmed. */
function cell(value: unknown): string {
  if (value === null || value === undefined) {
    return "";
  }
  const text = String(value);
  const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
}

/** Write rows as CSV. */
export function toCsv(head: readonly string[], rows: Iterable<readonly unknown[]>): string {
  const lines = [head.map(cell).join(",")];
  for (const row of rows) {
    lines.push(row.map(cell).join(","));
  }
  return `${lines.join("\n")}\n`;
}

/** Read CSV or TSV: quotes, doubled quotes and line breaks inside them are understood. */
export function parseCsv(text: string, separator = ",", most = Number.POSITIVE_INFINITY): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  let field = "";
  let quoted = false;
  const endRow = (): void => {
    row.push(field);
    field = "";
    if (row.length > 1 || row[0] !== "") {
      rows.push(row);
    }
    row = [];
  };
  for (let at = 0; at < text.length && rows.length < most; at += 1) {
    const sign = text[at];
    if (quoted) {
      if (sign === '"' && text[at + 1] === '"') {
        field += '"';
        at += 1;
      } else if (sign === '"') {
        quoted = false;
      } else {
        field += sign;
      }
    } else if (sign === '"' && field === "") {
      quoted = true;
    } else if (sign === separator) {
      row.push(field);
      field = "";
    } else if (sign === "\n") {
      endRow();
    } else if (sign !== "\r") {
      field += sign;
    }
  }
  if ((field !== "" || row.length > 0) && rows.length < most) {
    endRow();
  }
  return rows;
}
