// A drawing that keeps its size, and is zoomed and moved with mouse and keyboard.

import { fill, make } from "./elements.js";

export const FONT = "11px system-ui, sans-serif";

/** A canvas that is as wide as its surroundings and redrawn at most once per frame. */
export class Canvas {
  constructor(draw, label, height = 200) {
    this.draw = draw;
    this.height = height;
    this.width = 0;
    this.element = make("canvas", { tabindex: "0", role: "application", "aria-label": label });
    this.tip = make("div", { class: "nki-tip", role: "tooltip" });
    this.box = make("div", { class: "nki-canvas" }, this.element, this.tip);
    this.pen = this.element.getContext("2d");
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.box);
  }

  resize() {
    const width = this.box.clientWidth;
    if (width < 10) return; // hidden, or not yet on the page
    const ratio = globalThis.devicePixelRatio || 1;
    if (width === this.width && this.height === this.drawnHeight && ratio === this.ratio) return;
    Object.assign(this, { width, drawnHeight: this.height, ratio });
    this.element.width = Math.round(width * ratio);
    this.element.height = Math.round(this.height * ratio);
    this.element.style.height = `${this.height}px`;
    this.paint();
  }

  setHeight(height) {
    this.height = Math.round(height);
    this.resize();
  }

  ask() {
    if (this.frame || !this.width) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.paint();
    });
  }

  paint() {
    const started = performance.now();
    this.pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    this.pen.clearRect(0, 0, this.width, this.height);
    this.draw(this.pen, this.width, this.height);
    this.element.dataset.paintMs = (performance.now() - started).toFixed(1);
  }

  /** Show lines of text beside the pointer, or hide them. */
  showTip(lines, x, y) {
    if (!lines) {
      this.tip.style.display = "none";
      return;
    }
    fill(this.tip, ...lines.map((line, k) => make("div", { class: k ? null : "nki-tip-head" }, line)));
    this.tip.style.display = "block";
    const right = x + 14 + this.tip.offsetWidth > this.width;
    this.tip.style.left = `${Math.max(0, right ? x - 14 - this.tip.offsetWidth : x + 14)}px`;
    const below = y + 16 + this.tip.offsetHeight > this.height && y > this.tip.offsetHeight + 12;
    this.tip.style.top = `${below ? y - 12 - this.tip.offsetHeight : y + 16}px`;
  }

  close() {
    this.observer.disconnect();
    cancelAnimationFrame(this.frame);
  }
}

// The page is being scrolled when a wheel has turned elsewhere a moment ago; then it goes on scrolling
// although the pointer now lies on a drawing.
let scrolledAt = -Infinity;
const SCROLL_PAUSE_MS = 350;
globalThis.addEventListener?.("wheel", (event) => {
  if (!event.nkiZoom) scrolledAt = performance.now();
}, { passive: true });

/**
 * Zoom and move a Range on a canvas: wheel, drag, keys, double click.
 *
 * `area()` returns [left, width] of the axis on the canvas; `changed()` is called after a change;
 * `hover(x, y)`, `click(x, y, event)` and `leave()` are the view's.  `drag(event)` tells what dragging does: "pan",
 * "zoom" to a span, or "box", which hands a rectangle to `box([t0, t1], [y0, y1])`; by default it pans, with shift it
 * zooms.  `menu(x, y)` is called for the right button.
 */
export function navigate(canvas, range, area, { changed, hover, click, leave, keys = {}, drag, box, menu }) {
  const element = canvas.element;
  const share = (x) => (x - area()[0]) / area()[1];
  element.addEventListener("wheel", (event) => {
    if (performance.now() - scrolledAt < SCROLL_PAUSE_MS) return;
    if (event.deltaY > 0 && range.whole && !event.shiftKey) return;
    event.preventDefault();
    event.nkiZoom = true;
    const turned = event.deltaY || event.deltaX;
    if (event.shiftKey) range.pan(turned / area()[1]);
    else range.zoom(range.at(share(event.offsetX)), Math.exp(turned * 0.002));
    changed();
  }, { passive: false });
  let from = null;
  element.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    const what = drag ? drag(event) : event.shiftKey ? "zoom" : "pan";
    from = { x: event.offsetX, y: event.offsetY, last: event.offsetX, moved: false, what };
    element.setPointerCapture(event.pointerId);
  });
  element.addEventListener("pointermove", (event) => {
    if (from && Math.abs(event.offsetX - from.x) > 3) from.moved = true;
    if (from && from.moved && from.what !== "pan") {
      canvas.selection = [from.x, event.offsetX];
      canvas.selectedRows = from.what === "box" ? [from.y, event.offsetY] : null;
      canvas.ask();
    } else if (from && from.moved) {
      element.classList.add("nki-dragging");
      range.pan((from.last - event.offsetX) / area()[1]);
      changed();
    }
    if (from) from.last = event.offsetX;
    hover(event.offsetX, event.offsetY);
  });
  const release = (event) => {
    element.classList.remove("nki-dragging");
    if (from && canvas.selection) {
      const ends = canvas.selection.map((x) => range.at(share(x))).sort((a, b) => a - b);
      const rows = canvas.selectedRows;
      canvas.selection = canvas.selectedRows = null;
      if (rows) box(ends, rows.slice().sort((a, b) => a - b));
      else range.set(...ends);
      changed();
    } else if (from && !from.moved && event.type === "pointerup") {
      click(event.offsetX, event.offsetY, event);
    }
    from = null;
  };
  element.addEventListener("pointerup", release);
  element.addEventListener("pointercancel", release);
  element.addEventListener("pointerleave", () => leave());
  if (menu) {
    element.addEventListener("contextmenu", (event) => {
      event.preventDefault();
      event.stopPropagation(); // else JupyterLab's own menu opens
      menu(event.offsetX, event.offsetY);
    });
  }
  element.addEventListener("dblclick", () => {
    range.reset();
    changed();
  });
  const moves = {
    w: () => range.zoom(range.at(0.5), 0.7), s: () => range.zoom(range.at(0.5), 1 / 0.7),
    a: () => range.pan(-0.2), d: () => range.pan(0.2),
    "+": () => range.zoom(range.at(0.5), 0.7), "-": () => range.zoom(range.at(0.5), 1 / 0.7),
    ArrowLeft: () => range.pan(-0.1), ArrowRight: () => range.pan(0.1),
    0: () => range.reset(), Home: () => range.reset(),
  };
  element.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const act = keys[event.key] || moves[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act) return;
    act();
    changed();
    event.preventDefault();
    event.stopPropagation(); // else JupyterLab's own shortcuts act as well
  });
}

/** Return the lines of a text that is broken behind spaces and commas, so that none is wider than `room` pixels. */
export function wrap(pen, text, room) {
  const lines = [];
  let line = "";
  const fits = (more) => pen.measureText((line + more).trimEnd()).width <= room;
  for (const word of text.split(/(?<=[\s,])/)) {
    const parts = line === "" || fits(word) || pen.measureText(word.trimEnd()).width <= room ? [word] : [...word];
    for (const part of parts) {
      if (line && !fits(part)) {
        lines.push(line.trimEnd());
        line = "";
      }
      line += part;
    }
  }
  return [...lines, line.trimEnd()];
}

/** Return as much of `text` as fits into `room` pixels. */
export function fit(pen, text, room) {
  if (pen.measureText(text).width <= room) return text;
  let length = Math.max(0, Math.floor((text.length * room) / pen.measureText(text).width) - 1);
  while (length > 0 && pen.measureText(`${text.slice(0, length)}…`).width > room) length--;
  return length > 0 ? `${text.slice(0, length)}…` : "";
}
