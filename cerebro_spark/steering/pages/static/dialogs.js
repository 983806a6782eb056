// Dialogs: a command with its effect, and the details of a configuration.

import * as api from "./api.js";
import { debounce, element, setText } from "./dom.js";
import { number, param, parsed } from "./format.js";
import { newKey } from "./requests.js";

let made = 0;

// The dialog element keeps the focus inside, closes on Escape, and leaves the page behind it inert.
function open(title, content, closed) {
  made += 1;
  const heading = element("h2", { id: `dialog-${made}` }, title);
  const dialog = element("dialog", { "aria-labelledby": heading.id }, heading, content);
  document.body.append(dialog);
  const opener = document.activeElement;
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (!closed?.()) opener?.focus?.();
  });
  dialog.showModal();
  return dialog;
}

// A labelled field per value. `fields` are {name, label, value, hint}; reading raises the errors of the fields.
export class Fields {
  constructor(fields, changed) {
    this.inputs = fields.map((field) => this.make(field, changed));
    this.node = element("div", { class: "fields" }, ...this.inputs.map(({ row }) => row));
  }

  make(field, changed) {
    made += 1;
    const id = `field-${made}`;
    const input = this.input(field, id);
    const error = element("p", { class: "field-error", id: `${id}-error` });
    input.addEventListener("input", changed);
    const hint = field.hint ? [element("p", { class: "hint", id: `${id}-hint` }, field.hint)] : [];
    input.setAttribute("aria-describedby", `${id}-error${field.hint ? ` ${id}-hint` : ""}`);
    return { ...field, input, error, row: element("div", { class: "field" }, element("label", { for: id }, field.label), input, ...hint, error) };
  }

  input({ value, options }, id) {
    if (options || typeof value === "boolean") {
      const choices = options ?? [["true", "true"], ["false", "false"]];
      return element("select", { id }, ...choices.map(([key, label]) => element("option", { value: key, selected: key === String(value) }, label)));
    }
    const text = typeof value === "string" ? value : value === null || value === undefined ? "" : JSON.stringify(value);
    return element("input", { id, value: text, autocomplete: "off", spellcheck: "false", inputmode: typeof value === "number" ? "decimal" : null });
  }

  // The values by name, or null where a field is not valid; its error is shown beside it.
  read() {
    const values = {};
    let valid = true;
    for (const { name, value, input, error, read } of this.inputs) {
      try {
        values[name] = read ? read(input.value) : parsed(input.value, value);
        setText(error, "");
        input.removeAttribute("aria-invalid");
      } catch (failure) {
        valid = false;
        setText(error, `${name} ${failure.message}.`);
        input.setAttribute("aria-invalid", "true");
      }
    }
    return valid ? values : null;
  }

  // Focus the first field that is not valid; false if all are.
  focusInvalid() {
    const invalid = this.inputs.find(({ input }) => input.getAttribute("aria-invalid"));
    invalid?.input.focus();
    return invalid !== undefined;
  }
}

// The number of epochs of a form: empty stands for the default of the search.
export const epochsField = {
  name: "epochs",
  label: "Epochs to train",
  value: "",
  hint: "Empty: as many as the search gives its best configurations.",
  read: (text) => {
    if (text.trim() === "") return null;
    if (!/^[1-9][0-9]*$/.test(text.trim())) throw new Error("must be a whole number above 0");
    return Number(text);
  },
};

export const moreEpochsField = {
  name: "epochs",
  label: "Additional epochs",
  value: 1,
  hint: "They follow those that the procedure grants.",
  read: (text) => {
    if (!/^[1-9][0-9]*$/.test(text.trim())) throw new Error("must be a whole number above 0");
    return Number(text);
  },
};

// A repeated attempt has the same key, so that the server carries the command out once.
class Keys {
  constructor() {
    this.keys = new Map();
  }

  of(document) {
    const text = JSON.stringify(document);
    if (!this.keys.has(text)) this.keys.set(text, newKey());
    return this.keys.get(text);
  }
}

// A dialog with the effect of a command and a button that sends it. `effects` resolves to sentences or null where a field
// is not valid, `send` resolves to true once all is done; both throw errors of requests.
function steering({ title, verb, form, effects, send, closed }) {
  const box = element("div", { class: "effect", role: "status" }, "Computing the effect …");
  const failure = element("p", { class: "error", role: "alert" });
  const submit = element("button", { type: "submit", autofocus: !form }, verb);
  const cancel = element("button", { type: "button" }, "Cancel");
  let latest = 0;
  const show = async () => {
    latest += 1;
    const turn = latest;
    let sentences = [];
    let problem = "";
    try {
      sentences = (await effects()) ?? ["The effect is computed once all fields are valid."];
    } catch (error) {
      problem = error.message;
    }
    // A later change of the fields has another effect.
    if (turn !== latest) return;
    box.replaceChildren(...sentences.map((sentence) => element("p", {}, sentence)));
    setText(failure, problem);
  };
  const confirm = async (event) => {
    event.preventDefault();
    if (submit.disabled) return;
    submit.disabled = true;
    try {
      if (await send()) dialog.close();
    } catch (error) {
      if (error.status === 409) {
        await show();
        setText(submit, `${verb} anyway`);
      }
      setText(failure, error.message);
    }
    submit.disabled = false;
    if (dialog.open && !form?.focusInvalid()) submit.focus();
  };
  const content = element("form", { class: "command", novalidate: true, onsubmit: confirm }, ...(form ? [form.node] : []), element("h3", {}, "Effect"), box, failure, element("div", { class: "buttons" }, submit, cancel));
  const dialog = open(title, content, closed);
  cancel.addEventListener("click", () => dialog.close());
  show();
  return { dialog, show };
}

// Show the effect of a command, and send it when the user confirms. `build` makes the document from the fields' values.
export function command({ run, title, verb, fields = [], build, revision, refresh, sent, closed }) {
  const keys = new Keys();
  const form = fields.length ? new Fields(fields, debounce(250, () => shown.show())) : null;
  const body = () => {
    const values = form ? form.read() : {};
    if (values === null) return null;
    const based = revision?.();
    return based === undefined ? build(values) : { ...build(values), revision: based };
  };
  const effects = async () => {
    const document = body();
    return document && (await api.effect(run, document)).sentences;
  };
  const send = async () => {
    const document = body();
    if (document === null) return false;
    try {
      sent(await api.send(run, document, keys.of(document)));
    } catch (error) {
      if (error.status === 409) await refresh();
      throw error;
    }
    return true;
  };
  const shown = steering({ title, verb, form, effects, send, closed });
  return shown.dialog;
}

// One command to several configurations, all or none. Those to which it does not apply are left out, with the reason.
export function bulk({ run, action, verb, items, refresh, sent, closed }) {
  const keys = new Keys();
  // The server refuses the request if one of them has changed since this revision.
  const body = () => ({ command: action, where: { trials: Object.fromEntries(items().map(({ id, revision }) => [id, revision])) } });
  const effects = async () => {
    const { effect, left_out: left } = await api.effects(run, body());
    return [...effect.sentences, ...left.map(({ trial, message }) => `${trial} is left out: ${message}`)];
  };
  const send = async () => {
    try {
      const document = body();
      sent(await api.sendAll(run, document, keys.of(document)));
    } catch (error) {
      if (error.status === 409) await refresh();
      throw error;
    }
    return true;
  };
  return steering({ title: `${verb} the shown configurations`, verb, form: null, effects, send, closed }).dialog;
}

// A name and its value in a list of them.
export const row = (name, value) => [element("dt", {}, name), element("dd", {}, value)];

export function details(item, { metric, curve, closed, explanation }) {
  const links = explanation ? [element("a", { href: explanation }, "Explain an image")] : [];
  const close = element("button", { type: "button", autofocus: true }, "Close");
  const facts = element("dl", {},
    ...row("Status", item.status), ...row("Reason", item.reason || "–"), ...row("Owner", item.owner || "procedure"),
    ...row("Parent", item.parent || "–"), ...row("Epochs", `${item.done} of ${item.granted}`));
  const params = element("dl", {}, ...Object.entries(item.params).flatMap(([name, value]) => row(name, param(value))));
  const epochs = curve.epochs.map((epoch, place) => element("tr", {}, element("th", { scope: "row" }, String(epoch)), element("td", { class: "numeric" }, number(curve.values[place]))));
  const history = element("div", { class: "scrolls history", tabindex: 0, role: "region", "aria-label": `${metric} by epoch` },
    element("table", {}, element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "epoch"), element("th", { scope: "col", class: "numeric" }, metric))), element("tbody", {}, ...epochs)));
  const trace = item.traceback ? [element("h3", {}, "Traceback"), element("pre", { class: "traceback", tabindex: 0, role: "region", "aria-label": "Traceback" }, item.traceback)] : [];
  const dialog = open(item.id, element("div", { class: "details" },
    facts, element("h3", {}, "Hyperparameters"), params,
    ...(epochs.length ? [element("h3", {}, "Epochs"), history] : []), ...trace, element("div", { class: "buttons" }, close, ...links)), closed);
  close.addEventListener("click", () => dialog.close());
  return dialog;
}
