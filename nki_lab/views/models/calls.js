// Shows how the official tools would embed each kernel in the graph of the model.

import { button, copyText, fill, make } from "../../widgets/static/elements.js";

class Calls {
  constructor(panel, context, meta) {
    this.calls = meta.calls;
    this.entries = meta.calls.map(({ name, rows, text }) => {
      const copy = button("Copy", "Copy this text", async () => {
        copy.textContent = (await copyText(text, panel)) ? "Copied" : "Copying is not allowed here";
      });
      return make("section", { tabindex: "-1" }, make("div", { class: "nki-bar" }, make("strong", {}, name), make("span", { class: "nki-faint" }, rows.map((n) => `%${n}`).join(", ")), copy),
        make("pre", { class: "nki-call" }, text));
    });
    fill(panel, make("p", { class: "nki-faint" }, "HLO of each kernel's call; what only the official compiler makes stands in brackets."), this.entries);
  }

  /** Bring the call of an operator into sight. */
  reveal({ row }) {
    const k = this.calls.findIndex(({ rows }) => rows.includes(row));
    this.entries[k]?.scrollIntoView({ block: "nearest" });
    this.entries[k]?.focus({ preventScroll: true });
  }

  refresh() {}

  close() {}
}

/** Show the custom calls in `panel`; returns the view. */
export async function mount(panel, context) {
  const { meta } = await context.source.get("calls");
  return new Calls(panel, context, meta);
}
