// Lineage of clones: a tree of the configurations that are clones or were cloned.

import { byId, element, setText } from "./dom.js";
import { number, param } from "./format.js";

const MOST = 300;

function text(row, parent, metric) {
  const changed = parent ? Object.entries(row.params).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(parent.params[name])).map(([name, value]) => `${name} = ${param(value)} instead of ${param(parent.params[name] ?? null)}`) : [];
  const origin = row.parent ? [`from epoch ${row.parent_epoch}`, ...changed, `by ${row.owner || "the procedure"}`] : [];
  const value = Number.isFinite(row.best) ? [`best ${metric} ${number(row.best)}`] : [];
  return [row.status, ...origin, ...value].join(", ");
}

let shape = "";

// `open` shows the details of a configuration.
export function drawLineage(rows, metric, open) {
  const byName = new Map(rows.map((row) => [row.id, row]));
  const children = new Map();
  for (const row of rows) if (byName.has(row.parent)) children.set(row.parent, [...(children.get(row.parent) ?? []), row]);
  const roots = rows.filter((row) => children.has(row.id) && !byName.has(row.parent));
  const next = JSON.stringify(rows.filter((row) => row.parent || children.has(row.id)).map(({ id, parent, status, best }) => [id, parent, status, best, metric]));
  if (next === shape) return;
  shape = next;
  let left = MOST;
  const item = (row) => {
    left -= 1;
    const below = (children.get(row.id) ?? []).filter(() => left > 0).map(item);
    const name = element("button", { type: "button", class: "link", "data-lineage": row.id, onclick: () => open(row.id) }, row.id);
    return element("li", {}, name, ` ${text(row, byName.get(row.parent), metric)}`, ...(below.length ? [element("ul", {}, ...below)] : []));
  };
  const focused = document.activeElement?.dataset?.lineage;
  byId("lineage").replaceChildren(...roots.filter(() => left > 0).map(item));
  if (focused) byId("lineage").querySelector(`[data-lineage="${CSS.escape(focused)}"]`)?.focus();
  const amount = [...children.values()].flat().length;
  setText(byId("lineage-note"), amount ? (left > 0 ? "" : `Shows ${MOST} of the configurations that are clones or were cloned.`) : "No configuration is a clone.");
}
