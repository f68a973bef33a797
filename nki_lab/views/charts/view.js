// Shows the charts of a run: each a picture with its text for whoever does not see it.

import { fill, make } from "../../widgets/static/elements.js";

export async function mount(panel, context) {
  const { meta } = await context.source.get("charts");
  fill(panel, ...meta.map(({ svg, text }) => svg
    ? make("p", {}, make("img", { alt: text, title: text, src: `data:image/svg+xml,${encodeURIComponent(svg)}`, style: { maxWidth: "100%" } }))
    : make("p", { class: "nki-faint" }, text)));
  return { refresh() {}, close() {} };
}
