// Arranges the views of a run: tabs, the theme, and links between views.

import { fill, make, notice, uniqueNumber } from "./elements.js";
import { Source, within } from "./parts.js";
import { Theme, watchTheme } from "./theme.js";

const OF_RUNS = "run:"; // what the names of views begin with that only stand inside others

class RunView {
  /** `inner` is what another view shows inside it: a head, tabs and a source. */
  constructor(views, model, host, inner = {}) {
    this.kinds = views;
    this.root = make("div", { class: "nki-view", "data-lm-suppress-shortcuts": "true" });
    host.append(this.root);
    // A letter that means nothing here must not mean "insert a cell" or "delete this one" to JupyterLab.
    this.root.addEventListener("keydown", (event) => {
      if (event.key.length === 1 && !event.ctrlKey && !event.metaKey && !event.altKey) event.stopPropagation();
    });
    const head = inner.head || model.get("head");
    this.tabs = (inner.tabs || model.get("tabs")).filter((name) => views[name]);
    this.source = inner.source || new Source(model);
    this.theme = new Theme(model.get("theme"), host, head.lines); // the view itself has a colour that follows from it
    this.context = { source: this.source, theme: this.theme, open: {}, nested: (...facts) => this.nested(model, ...facts) };
    this.views = {};
    this.id = `nki-${uniqueNumber()}`;
    this.buttons = this.tabs.map((name, k) => make("button", {
      type: "button", role: "tab", id: `${this.id}-tab-${name}`, "aria-controls": `${this.id}-${name}`,
      onclick: () => this.show(name), onkeydown: (event) => this.key(event, k),
    }, views[name][0]));
    this.panels = this.tabs.map((name) => make("div", {
      class: "nki-panel", role: "tabpanel", id: `${this.id}-${name}`, "aria-labelledby": `${this.id}-tab-${name}`, hidden: true,
    }, notice("…")));
    this.root.append(
      make("header", { class: "nki-head" },
        make("span", { class: "nki-title" }, head.title), make("span", { class: "nki-faint" }, head.target),
        make("span", { class: `nki-badge ${head.modelled ? "" : "nki-measured"}`, title: head.badge }, head.state || (head.modelled ? "modelled" : "measured")),
        make("span", { class: "nki-faint", hidden: !head.note }, head.note || "")),
      make("div", { class: "nki-tabs", role: "tablist", "aria-label": `Views of ${head.title}`, hidden: this.tabs.length < 2 }, this.buttons),
      ...this.panels);
    for (const name of this.tabs) this.context.open[name] = (target) => this.show(name).then((view) => view?.reveal?.(target));
    this.unwatch = watchTheme(() => { if (this.theme.update()) this.refresh(); });
    this.mark();
    this.show(this.tabs[0]);
  }

  /** Show the views of a run inside one of these; `prefix` is what the names of its parts begin with. */
  nested(model, host, head, tabs, prefix) {
    const views = Object.entries(this.kinds).filter(([name]) => name.startsWith(OF_RUNS)).map(([name, view]) => [name.slice(OF_RUNS.length), view]);
    return new RunView(Object.fromEntries(views), model, host, { head, tabs, source: within(this.source, prefix) });
  }

  /** Bring a view to the front, made when it is first shown; returns a promise of it. */
  show(name) {
    this.current = name;
    this.tabs.forEach((tab, k) => {
      this.buttons[k].setAttribute("aria-selected", String(tab === name));
      this.buttons[k].tabIndex = tab === name ? 0 : -1;
      this.panels[k].hidden = tab !== name;
    });
    const panel = this.panels[this.tabs.indexOf(name)];
    if (!this.views[name]) {
      this.views[name] = this.kinds[name][1](panel, this.context).catch((problem) => {
        fill(panel, notice(problem.message, "error"));
        delete this.views[name]; // another click tries again
      });
    }
    return this.views[name].then((view) => {
      if (view && this.current === name) view.refresh();
      panel.dataset.ready = String(Boolean(view));
      return view;
    });
  }

  key(event, k) {
    const count = this.tabs.length;
    const to = { ArrowRight: (k + 1) % count, ArrowLeft: (k + count - 1) % count, Home: 0, End: count - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    this.show(this.tabs[to]);
    this.buttons[to].focus();
  }

  mark() {
    this.root.classList.toggle("nki-dark", this.theme.dark);
  }

  refresh() {
    this.mark();
    for (const view of Object.values(this.views)) view.then((made) => made?.refresh());
  }

  close() {
    this.unwatch();
    this.source.close?.(); // what stands inside another has the source of that one
    for (const view of Object.values(this.views)) view.then((made) => made?.close());
    this.root.remove();
  }
}

/** Return what shows the run of a widget's model in an element, and returns how to take it away again; `views`: name -> [title, mount]. */
export function renderer(views) {
  return ({ model, el }) => {
    const view = new RunView(views, model, el);
    return () => view.close();
  };
}
