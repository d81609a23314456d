/** The query string as plain words: what people read in the address bar is what the page gets. Pure. */

/** Read `?a=b&c=d`; a key given twice counts once, the last time. */
export function parseQuery(text: string): Record<string, string> {
  return Object.fromEntries(new URLSearchParams(text).entries());
}

/** Write a query string, keeping signs that are safe and that people want to read. */
export function formatQuery(search: Record<string, unknown>): string {
  const parts = Object.entries(search)
    .filter(([, value]) => value !== undefined && value !== null && value !== "")
    .map(([key, value]) => `${encodeURIComponent(key)}=${readable(String(value))}`);
  return parts.length === 0 ? "" : `?${parts.join("&")}`;
}

function readable(text: string): string {
  return encodeURIComponent(text).replace(/%(2C|3A|2F|40|60|27|20)/gi, (code) =>
    code === "%20" ? "+" : decodeURIComponent(code),
  );
}
