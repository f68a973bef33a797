// Keeps the moments that were marked, and the time between them.

import { button, fill, make } from "../../widgets/static/elements.js";
import { duration, time } from "../../widgets/static/words.js";

/** Moments with numbers, kept in the order of time. */
export class Marks {
  constructor() {
    this.marks = [];
    this.last = 0;
  }

  /** Mark a moment, or take away the mark that is nearer than `near`. */
  toggle(at, near) {
    const close = this.marks.findIndex((mark) => Math.abs(mark.at - at) <= near);
    if (close >= 0) this.marks.splice(close, 1);
    else this.marks.push({ at, name: String(++this.last) });
    this.marks.sort((a, b) => a.at - b.at);
    if (!this.marks.length) this.last = 0;
  }

  /** Return spans between neighbours. */
  spans() {
    return this.marks.slice(1).map((mark, k) => [this.marks[k], mark]);
  }
}

/** Paint a line for each mark that is in view. */
export function paintMarks(pen, view, columns, height) {
  const { theme, range, left } = view;
  pen.textAlign = "left";
  for (const { at, name } of view.marks.marks) {
    if (at < range.lo || at > range.hi) continue;
    const x = Math.round(left + range.share(at) * columns) + 0.5;
    pen.strokeStyle = theme.now.ink;
    pen.lineWidth = 1;
    pen.setLineDash([5, 3]);
    pen.beginPath();
    pen.moveTo(x, 14);
    pen.lineTo(x, height);
    pen.stroke();
    pen.setLineDash([]);
    const wide = pen.measureText(name).width + 6;
    pen.fillStyle = theme.now.ink;
    pen.fillRect(x - wide / 2, 12, wide, 13);
    pen.fillStyle = theme.now.paper;
    pen.fillText(name, x - wide / 2 + 3, 19);
  }
}

/** List the marks with what lies between neighbours; `select(a, b)` shows the summary of a span. */
export function listMarks(element, view, select) {
  const { marks } = view.marks;
  if (!marks.length) {
    fill(element);
    return;
  }
  const spans = view.marks.spans().map(([a, b]) =>
    button(`${a.name} to ${b.name}: ${duration(b.at - a.at)}`, "Sum up what happens between these marks", () => select(a.at, b.at)));
  fill(element, make("span", {}, marks.length > 1 ? "Marks " : "Mark "),
    marks.map(({ name, at }) => make("span", { class: "nki-key" }, `${name} at ${time(at + view.origin, view.total)}`)), spans,
    button("Clear marks", "Take all marks away", () => {
      marks.length = 0;
      view.changed();
      listMarks(element, view, select);
    }));
}
