// Shows the charts of a run, each a picture above its text.

import { fill, make } from "../../widgets/static/elements.js";

export async function mount(panel, context) {
  const { meta } = await context.source.get("charts");
  const refresh = () => fill(panel, ...meta.flatMap((chart) => {
    const svg = chart[context.theme.dark ? "dark" : "light"];
    if (!svg) return [make("p", { class: "nki-faint" }, chart.text)];
    const picture = make("img", { alt: "", src: `data:image/svg+xml,${encodeURIComponent(svg)}`, style: { width: "100%", maxWidth: "800px" } });
    return [picture, make("details", {}, make("summary", {}, chart.text.split("\n")[0]), make("pre", {}, chart.text))];
  }));
  refresh();
  return { refresh, close() {} };
}
