// Export of a table as CSV.

// Spreadsheets compute cells that begin with these characters; a number is no formula.
const FORMULA = /^[=+\-@\t\r]/;

export function cell(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "";
  let text = typeof value === "object" ? JSON.stringify(value) : String(value);
  if (typeof value !== "number" && FORMULA.test(text)) text = `'${text}`;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export const csv = (rows) => rows.map((row) => `${row.map(cell).join(",")}\r\n`).join("");

export function configurationRows(items, metric) {
  const names = [...new Set(items.flatMap(({ params }) => Object.keys(params)))];
  const head = ["configuration", "status", "reason", "owner", "parent", "epochs", "granted epochs", metric, `best ${metric}`, ...names];
  return [head, ...items.map((item) => [
    item.id, item.status, item.reason, item.owner, item.parent, item.done, item.granted, item.last, item.best,
    ...names.map((name) => item.params[name]),
  ])];
}

export function download(name, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(["\ufeff", text], { type: "text/csv;charset=utf-8" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
