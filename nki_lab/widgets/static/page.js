// Gives a saved page its data, which stands in the page itself: there is no kernel to ask.

const bytesOf = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

/** A widget's model without a kernel: what is not in the page is said to be missing. */
export class SavedModel {
  constructor(state) {
    const parts = Object.entries(state.parts).map(([name, texts]) => [name, texts.map(bytesOf)]);
    this.state = { ...state, parts: Object.fromEntries(parts) };
    this.heard = new Set();
  }

  get(name) {
    return this.state[name];
  }

  on(_, heard) {
    this.heard.add(heard);
  }

  off(_, heard) {
    this.heard.delete(heard);
  }

  send(message) {
    const why = this.state.cut?.includes(message.want) ? "has no room in this page" : "is not part of the saved page";
    const error = `This ${why}; run the kernel in a notebook to see it.`;
    queueMicrotask(() => this.heard.forEach((heard) => heard({ part: message.want, error }, [])));
  }
}

/** Show the run of the page. */
export function openPage(render) {
  const state = JSON.parse(document.getElementById("state").textContent);
  render({ model: new SavedModel(state), el: document.getElementById("run") });
  const dark = globalThis.matchMedia("(prefers-color-scheme: dark)");
  // The views look at the page anew when one of its classes changes.
  dark.addEventListener("change", () => document.body.classList.toggle("nki-page-dark", dark.matches));
  // JupyterLab shows the page in a frame that it cannot reach into, and says when its theme changes.
  globalThis.addEventListener("message", ({ data }) => {
    if (data?.nkiTheme) document.body.dataset.jpThemeLight = String(data.nkiTheme !== "dark");
  });
}
