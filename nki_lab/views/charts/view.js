// Shows the charts of a run, each a picture above its text.

import { fill, make } from "../../widgets/static/elements.js";

export async function mount(panel, context) {
  const { meta } = await context.source.get("charts");
  fill(panel, ...meta.flatMap(({ svg, text }) => [
    svg && make("img", { alt: "", src: `data:image/svg+xml,${encodeURIComponent(svg)}`, style: { maxWidth: "100%" } }),
    svg ? make("details", {}, make("summary", {}, text.split("\n")[0]), make("pre", {}, text)) : make("p", { class: "nki-faint" }, text),
  ]));
  return { refresh() {}, close() {} };
}
