// Logic without an editor is tested in Node; a test of a panel or a tooltip opens with
// `@jest-environment jsdom`. What a person sees is tested in tests/browser, in a real JupyterLab.
const { join } = require('node:path');

// JupyterLab's packages are ES modules, jest runs CommonJS: they are converted as our sources are.
const MODULES = ['@jupyter', '@jupyterlab', '@microsoft', '@rjsf', 'exenv-es6', 'lib0', 'nanoid', 'vscode-ws-jsonrpc', 'y-protocols', 'yjs'];

module.exports = {
  testEnvironment: 'node',
  roots: ['<rootDir>/tests'],
  setupFiles: ['<rootDir>/tests/browser.cjs'],
  transform: { '\\.[jt]sx?$': ['ts-jest', { tsconfig: join(__dirname, 'tests', 'tsconfig.json') }] },
  transformIgnorePatterns: [`/node_modules/(?!(${MODULES.join('|')})/)`],
  moduleNameMapper: {
    '\\.(css|svg)$': '<rootDir>/tests/asset.cjs',
    // The sources name files as the browser loads them.
    '^(\\.{1,2}/.*)\\.js$': '$1'
  }
};
