// How are elements made?  Text from users only ever becomes text nodes, never markup.

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
