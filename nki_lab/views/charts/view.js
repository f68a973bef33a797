// Shows the charts of a run, each a picture above its text.

import { fill, make } from "../../widgets/static/elements.js";

export async function mount(panel, context) {
  const { meta } = await context.source.get("charts");
  const refresh = () => fill(panel, ...meta.flatMap((chart) => {
    if (!chart.drawn) return [make("p", { class: "nki-faint" }, chart.text)];
    const pictures = chart.drawn[context.theme.dark ? "dark" : "light"].map((svg, narrow) => make("img", {
      alt: "", src: `data:image/svg+xml,${encodeURIComponent(svg)}`, class: narrow ? "nki-chart nki-narrow" : "nki-chart" }));
    return [pictures, make("details", {}, make("summary", {}, chart.text.split("\n")[0]), make("pre", {}, chart.text))];
  }));
  refresh();
  return { refresh, close() {} };
}
