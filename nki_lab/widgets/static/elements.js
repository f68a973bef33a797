// Makes elements.  Text from users only ever becomes text nodes, never markup.

/** Return an element; `facts` are properties, attributes, a `class`, or `on...` functions. */
export function make(tag, facts = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(facts)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(element.style, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...present(children));
  return element;
}

/** Put children in place of what an element holds; lists are taken apart, nothing is left out. */
export function fill(element, ...children) {
  element.replaceChildren(...present(children));
}

function present(children) {
  return children.flat(Infinity).filter((child) => child !== undefined && child !== null && child !== false);
}

/** Return a table with headings; cells are texts, numbers or elements, numbers to the right. */
export function table(heads, rows, facts = {}) {
  const isNumber = heads.map((head) => head.startsWith("#"));
  const cell = (tag) => (text, k) => make(tag, { class: isNumber[k] ? "nki-num" : null }, text);
  return make(
    "table",
    { class: "nki-table", ...facts },
    make("thead", {}, make("tr", {}, heads.map((head, k) => cell("th")(head.replace(/^#/, ""), k)))),
    make("tbody", {}, rows.map((row) => make("tr", {}, row.map(cell("td"))))),
  );
}

/** Return a place in the author's text with its line. */
export function sourceLine(place, text) {
  if (!place) return make("span", { class: "nki-faint" }, "no source line");
  return make("span", { class: "nki-source" }, make("span", { class: "nki-place" }, place), make("code", {}, (text || "").trim()));
}

/** Return a labelled choice; `options` are [value, text] or [group, [[value, text], ...]]. */
export function choice(label, options, chosen, onChange) {
  const entry = ([value, text]) =>
    Array.isArray(text)
      ? make("optgroup", { label: value }, text.map(entry))
      : make("option", { value, selected: String(value) === String(chosen) }, text);
  const select = make("select", { onchange: () => onChange(select.value) }, options.map(entry));
  return make("label", { class: "nki-choice" }, label, select);
}

export function button(text, title, act) {
  return make("button", { type: "button", title, onclick: act }, text);
}

/** Return a line of a message in place of a view. */
export function notice(text, kind = "") {
  return make("p", { class: `nki-notice ${kind}`, role: kind === "error" ? "alert" : "status" }, text);
}

/** Put a text on the clipboard; returns a promise of whether that was allowed. */
export async function copyText(text, within) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Without a secure origin, or in a frame, only the old way is open.
    const area = make("textarea", { "aria-hidden": "true", style: { position: "fixed", opacity: "0" } });
    area.value = text;
    within.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

/** Return an element of an SVG drawing; facts as for `make`. */
export function drawn(tag, facts = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(facts)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, String(value));
  }
  element.append(...present(children));
  return element;
}

const COUNTER = Symbol.for("nki_lab.elements");

/** Return a number for an id: no other element has it, also where each view has its own module. */
export function uniqueNumber() {
  globalThis[COUNTER] = (globalThis[COUNTER] || 0) + 1;
  return globalThis[COUNTER];
}
