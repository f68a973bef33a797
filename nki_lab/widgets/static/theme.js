// Tells whether the page is light or dark, and gives the colours that follow.

import { heatColour } from "./heat.js";

/** Return whether text on the page of `element` is light on dark. */
export function isDark(element) {
  const named = document.body.dataset.jpThemeLight;
  if (named !== undefined) return named === "false";
  let node = element;
  while (node) {
    const parts = getComputedStyle(node).backgroundColor.match(/[\d.]+/g);
    if (parts && (parts.length < 4 || Number(parts[3]) > 0.5)) {
      return 0.299 * parts[0] + 0.587 * parts[1] + 0.114 * parts[2] < 128;
    }
    node = node.parentElement;
  }
  return false;
}

/** Call `changed` whenever the page's theme may have changed; returns how to stop. */
export function watchTheme(changed) {
  const observer = new MutationObserver(changed);
  const attributes = ["data-jp-theme-light", "data-jp-theme-name", "data-theme", "class", "style"];
  for (const node of [document.body, document.documentElement]) {
    observer.observe(node, { attributes: true, attributeFilter: attributes });
  }
  return () => observer.disconnect();
}

/** The colours of both themes, and which of them hold now. */
export class Theme {
  constructor(table, element, lines = []) {
    this.table = table;
    this.element = element;
    this.lines = new Map(lines.map((place, k) => [place, k]));
    this.update();
  }

  update() {
    const before = this.now;
    this.dark = isDark(this.element);
    this.now = this.table[this.dark ? "dark" : "light"];
    return this.now !== before;
  }

  engine(name) {
    return this.now.engines[name] || this.now.faint;
  }

  engineLabel(name) {
    return this.table.labels[name] || name;
  }

  series(number) {
    return this.now.series[number % this.now.series.length];
  }

  /** Return the colour of a share of 0 to 1 of the largest value. */
  heat(share) {
    return `rgb(${heatColour(this.now.heat, share).join(", ")})`;
  }

  /** Return the colour of a source line: the same in every view of a run. */
  line(place) {
    if (!place) return this.now.faint;
    return this.series(this.numberOf(place));
  }

  /** Tell whether another line has the colour of this one already. */
  isAgain(place) {
    return Boolean(place) && this.numberOf(place) >= this.now.series.length;
  }

  numberOf(place) {
    if (!this.lines.has(place)) this.lines.set(place, this.lines.size);
    return this.lines.get(place);
  }
}

/** Return #rrggbb as a little-endian word without alpha, as ImageData holds it. */
export function word(colour) {
  return parseInt(colour.slice(5, 7) + colour.slice(3, 5) + colour.slice(1, 3), 16);
}
