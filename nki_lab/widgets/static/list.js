// A list of any length: only the lines in sight have elements.

import { fill, make } from "./elements.js";

const MARGIN = 20;

/** A scrolling list of rows of equal height; `row(number)` makes the element of one. */
export class LongList {
  constructor({ row, height = 18, label, onChoose = () => {}, facts = {} }) {
    Object.assign(this, { row, rowHeight: height, onChoose, count: 0, chosen: -1 });
    this.inner = make("div", { class: "nki-list-inner" });
    this.element = make("div", { class: "nki-list", tabindex: "0", role: "listbox", "aria-label": label, ...facts }, this.inner);
    this.element.addEventListener("scroll", () => this.renew(false));
    this.element.addEventListener("keydown", (event) => this.key(event));
    this.observer = new ResizeObserver(() => this.renew(false));
    this.observer.observe(this.element);
  }

  setCount(count) {
    this.count = count;
    this.chosen = -1;
    this.inner.style.height = `${count * this.rowHeight}px`;
    this.element.scrollTop = 0;
    this.renew();
  }

  /** Make the rows in sight; unless `always`, only when others have come into sight. */
  renew(always = true) {
    const seen = Math.ceil((this.element.clientHeight || 200) / this.rowHeight);
    const first = Math.max(0, Math.floor(this.element.scrollTop / this.rowHeight) - MARGIN);
    const last = Math.min(this.count, first + seen + 2 * MARGIN);
    if (!always && first === this.first && last === this.last) return;
    Object.assign(this, { first, last });
    const rows = [];
    for (let k = first; k < last; k++) {
      const element = this.row(k);
      element.classList.add("nki-row");
      element.setAttribute("role", "option");
      element.setAttribute("aria-selected", String(k === this.chosen));
      element.style.top = `${k * this.rowHeight}px`;
      element.style.height = element.style.lineHeight = `${this.rowHeight}px`;
      element.addEventListener("click", () => this.choose(k));
      rows.push(element);
    }
    fill(this.inner, ...rows);
  }

  choose(k, reveal = false) {
    if (k < 0 || k >= this.count) return;
    this.chosen = k;
    const top = k * this.rowHeight;
    const { scrollTop, clientHeight } = this.element;
    if (reveal || top < scrollTop || top + this.rowHeight > scrollTop + clientHeight) {
      this.element.scrollTop = Math.max(0, reveal ? top - clientHeight / 3 : Math.min(top, top + this.rowHeight - clientHeight));
      if (top < this.element.scrollTop) this.element.scrollTop = top;
    }
    this.renew();
    this.onChoose(k);
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.rowHeight) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    const step = steps[event.key];
    if (step === undefined) return;
    this.choose(Math.min(this.count - 1, Math.max(0, (this.chosen < 0 ? -1 : this.chosen) + step)));
    event.preventDefault();
    event.stopPropagation();
  }

  close() {
    this.observer.disconnect();
  }
}
