// A list of any length: only the lines near the part in sight have elements.
//
// The list does not scroll: its panel does.  Rows stand in blocks, and may be as high as their text needs.

import { fill, make } from "./elements.js";

const BLOCK = 40;
const AROUND = "400px 0px"; // rows exist this far outside the panel

/** A list of rows; `row(number)` makes the element of one, `height` is what most of them take. */
export class LongList {
  constructor({ row, height = 18, label, onChoose = () => {}, facts = {}, first = Infinity }) {
    Object.assign(this, { row, rowHeight: height, onChoose, few: first, count: 0, chosen: -1, also: [] });
    this.more = make("button", { type: "button", class: "nki-more", onclick: () => this.expand() });
    this.element = make("div", { class: "nki-list", tabindex: "0", role: "listbox", "aria-label": label, ...facts });
    this.element.addEventListener("keydown", (event) => this.key(event));
    this.blocks = [];
  }

  get panel() {
    return this.element.closest(".nki-panel");
  }

  setCount(count) {
    Object.assign(this, { count, chosen: -1, also: [], shown: Math.min(count, this.few) });
    this.panel?.scrollTo({ top: 0 });
    this.arrange();
  }

  /** Show all rows, where only the first ones are. */
  expand() {
    this.shown = this.count;
    this.arrange();
  }

  arrange() {
    this.observer?.disconnect();
    this.observer = new IntersectionObserver((seen) => {
      for (const { target, isIntersecting } of seen) (isIntersecting ? this.enter(target) : this.leave(target));
    }, { root: this.panel, rootMargin: AROUND });
    this.blocks = [];
    for (let from = 0; from < this.shown; from += BLOCK) {
      const to = Math.min(this.shown, from + BLOCK);
      this.blocks.push(make("div", { "data-from": from, "data-to": to, style: { height: `${(to - from) * this.rowHeight}px` } }));
    }
    this.more.textContent = `Show all ${this.count.toLocaleString("en-US")}`;
    fill(this.element, this.blocks, this.shown < this.count ? this.more : null);
    if (this.blocks.length) this.enter(this.blocks[0]);
    this.blocks.forEach((block) => this.observer.observe(block));
  }

  /** Make the rows of a block. */
  enter(block, anew = false) {
    if (block.childElementCount && !anew) return;
    const rows = [];
    for (let k = Number(block.dataset.from); k < Number(block.dataset.to); k++) {
      const element = this.row(k);
      element.classList.add("nki-row");
      element.setAttribute("role", "option");
      element.style.minHeight = element.style.lineHeight = `${this.rowHeight}px`;
      element.addEventListener("click", () => this.choose(k));
      rows.push(element);
    }
    fill(block, rows);
    block.style.height = "";
    this.mark(block);
  }

  /** Take the rows of a block away; it stays as high as it is. */
  leave(block) {
    if (!block.childElementCount || !block.offsetHeight) return; // hidden with its panel
    block.style.height = `${block.offsetHeight}px`;
    fill(block);
  }

  /** Say which rows are chosen. */
  mark(block) {
    [...block.children].forEach((row, n) => {
      const k = Number(block.dataset.from) + n;
      row.setAttribute("aria-selected", String(k === this.chosen || this.also.includes(k)));
    });
  }

  /** Make the rows that exist anew. */
  renew() {
    for (const block of this.blocks) if (block.childElementCount) this.enter(block, true);
  }

  /** Choose row `k`, and the rows `also` with it. */
  choose(k, reveal = false, also = []) {
    if (k < 0 || k >= this.count) return;
    if (k >= this.shown) this.expand();
    Object.assign(this, { chosen: k, also });
    const block = this.blocks[Math.floor(k / BLOCK)];
    this.enter(block);
    this.blocks.forEach((one) => this.mark(one));
    this.onChoose(k);
    this.bring(block.children[k % BLOCK], reveal);
  }

  /** Scroll the panel so far that a row is between what stays at its top and at its bottom. */
  bring(row, reveal) {
    const { panel } = this;
    if (!panel || !row) return;
    const height = (name) => panel.querySelector(name)?.offsetHeight || 0;
    const frame = panel.getBoundingClientRect();
    const [top, bottom] = [frame.top + height(".nki-stay-above"), frame.bottom - height(".nki-stay")];
    const at = row.getBoundingClientRect();
    if (at.top >= top && at.bottom <= bottom) return;
    if (reveal) panel.scrollTop += at.top - top - (bottom - top) / 3;
    else panel.scrollTop += at.top < top ? at.top - top : at.bottom - bottom;
  }

  /** Let go of what is chosen. */
  release() {
    Object.assign(this, { chosen: -1, also: [] });
    this.blocks.forEach((block) => this.mark(block));
    this.onChoose(-1);
  }

  key(event) {
    if (event.key === "Escape" && this.chosen >= 0) this.release();
    const page = Math.max(1, Math.floor((this.panel?.clientHeight || 0) / this.rowHeight / 2));
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    const step = steps[event.key];
    if (step === undefined || event.target !== this.element) return;
    this.choose(Math.min(this.count - 1, Math.max(0, (this.chosen < 0 ? -1 : this.chosen) + step)));
    event.preventDefault();
    event.stopPropagation();
  }

  close() {
    this.observer?.disconnect();
  }
}
