// What JupyterLab's packages ask for when they are loaded, and jsdom does not have.
const { TextDecoder, TextEncoder } = require('node:util');

if (typeof window !== 'undefined') {
  class Observer {
    observe() {}
    unobserve() {}
    disconnect() {}
  }
  const missing = {
    DragEvent: class extends MouseEvent {},
    IntersectionObserver: Observer,
    ResizeObserver: Observer,
    TextDecoder,
    TextEncoder,
    // A test that asks a server must bring an answer of its own.
    fetch: () => Promise.reject(new Error('no network in a unit test')),
    Headers: class {},
    Request: class {},
    Response: class {},
    matchMedia: () => ({ matches: false, addEventListener() {}, removeEventListener() {} })
  };
  for (const [name, value] of Object.entries(missing)) {
    window[name] ??= value;
  }
}
