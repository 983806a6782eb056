// Corrections that the server has, the latest first.

import * as api from "./api.js";
import { byId, element, setAttribute, setText } from "./dom.js";
import { time } from "./format.js";

export class Corrections {
  constructor({ run, editor, remove }) {
    Object.assign(this, { run, editor, remove });
    this.shape = "";
  }

  draw(listed, column, label) {
    setAttribute(byId("export"), "href", api.csvAddress(this.run, column));
    setText(byId("code"), this.code(column, label));
    const shape = JSON.stringify(listed);
    if (shape === this.shape) return;
    this.shape = shape;
    const changed = listed.filter((each) => each.given_label !== each.label).length;
    setText(byId("corrections-note"), listed.length ? `${listed.length} rows are decided, ${changed} of them get another label.` : "No row is decided yet.");
    const focused = document.activeElement?.dataset?.removes;
    byId("corrections").tBodies[0].replaceChildren(...listed.map((each) => this.row(each)));
    byId("corrections").hidden = !listed.length;
    // A row that is gone leaves the focus to the heading.
    if (focused) (byId("corrections").querySelector(`[data-removes="${CSS.escape(focused)}"]`) ?? byId("corrections-heading")).focus();
  }

  row(each) {
    const { number, row, given_label: given, label, user, created } = each;
    const cells = [given === null ? "" : String(given), String(label), user, time(created)].map((value) => element("td", {}, value));
    if (this.editor) cells.push(element("td", {}, element("button", { type: "button", class: "small", "data-removes": number, "aria-label": `Remove the correction of row ${row}`, onclick: () => this.remove(each) }, "Remove")));
    return element("tr", {}, element("th", { scope: "row" }, String(row)), ...cells);
  }

  code(column, label) {
    const quoted = JSON.stringify(column || "id");
    return [
      "from cerebro_spark.debugging import relabel",
      "from cerebro_spark.steering import Client",
      "",
      `corrections = Client().corrections(${JSON.stringify(this.run)}, id_column=${quoted})`,
      `corrected = relabel(df, corrections, id_column=${quoted}, label_column=${JSON.stringify(label || "label")})`,
    ].join("\n");
  }
}
