// Commands: the pending ones, which can be withdrawn, and the history.

import * as api from "./api.js";
import { byId, element, setText } from "./dom.js";
import { param, time } from "./format.js";

const VERBS = { add: "Add", clone: "Clone", extend: "Extend", stop: "Stop", pause: "Pause", resume: "Resume", prioritise: "Prioritise", end: "End the search" };
const MARKS = { pending: "…", applied: "✓", refused: "✕", withdrawn: "↶" };

// A command as a sentence.
export function sentence({ command, trial, params, epoch, epochs }) {
  const values = Object.entries(params ?? {}).map(([name, value]) => `${name}=${param(value)}`);
  return [
    VERBS[command] ?? command,
    trial ?? "",
    epoch ? `from epoch ${epoch}` : "",
    values.length ? `with ${values.join(", ")}` : "",
    epochs ? `for ${epochs} ${epochs === 1 ? "epoch" : "epochs"}` : "",
  ].filter(Boolean).join(" ");
}

export class Commands {
  constructor({ editor, announce, refresh }) {
    Object.assign(this, { editor, announce, refresh });
    this.states = null;
    this.shape = "";
  }

  draw(commands) {
    this.report(commands);
    const shape = JSON.stringify(commands);
    if (shape === this.shape) return;
    this.shape = shape;
    const pending = commands.filter(({ state }) => state === "pending");
    const settled = commands.filter(({ state }) => state !== "pending").reverse();
    setText(byId("pending-note"), pending.length ? "" : "No command is pending.");
    // The focus stays with the button of a command that is still pending.
    const focused = document.activeElement?.dataset?.withdraws;
    byId("pending").replaceChildren(...pending.map((each) => this.item(each)));
    if (focused) byId("pending").querySelector(`[data-withdraws="${CSS.escape(focused)}"]`)?.focus();
    byId("history").tBodies[0].replaceChildren(...settled.map((each) => this.row(each)));
    byId("history").hidden = !settled.length;
  }

  // Say what has changed since the last time.
  report(commands) {
    const before = this.states;
    this.states = new Map(commands.map(({ id, state }) => [id, state]));
    if (before === null) return;
    for (const each of commands) {
      if (each.state === "pending" || before.get(each.id) === each.state) continue;
      const message = each.result.message ? `: ${each.result.message}` : "";
      this.announce(`${sentence(each.command)}: ${each.state}${message}.`);
    }
  }

  item({ id, command, user, created }) {
    const label = sentence(command);
    const withdraw = element("button", { type: "button", class: "small", "data-withdraws": id, "aria-label": `Withdraw ${label}`, onclick: (event) => this.withdraw(id, event.currentTarget) }, "Withdraw");
    return element("li", {}, element("span", {}, `${MARKS.pending} ${label}`), element("span", { class: "muted" }, `${user}, ${time(created)}`), ...(this.editor ? [withdraw] : []));
  }

  row({ command, user, created, state, result }) {
    const cells = [sentence(command), `${MARKS[state] ?? ""} ${state}`, user, result.message || (result.trial && result.trial !== command.trial ? result.trial : "")];
    return element("tr", {}, element("th", { scope: "row" }, time(created)), ...cells.map((cell) => element("td", {}, cell)));
  }

  async withdraw(id, button) {
    button.disabled = true;
    try {
      await api.withdraw(id);
      byId("commands-heading").focus();
    } catch (error) {
      button.disabled = false;
      this.announce(error.message);
    }
    await this.refresh();
  }
}
