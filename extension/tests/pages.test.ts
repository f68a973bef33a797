/**
 * @jest-environment jsdom
 *
 * Is a page shown in a frame that reaches nothing, once for each state of its file, and is a problem shown as text?
 */

import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import { Widget } from '@lumino/widgets';
import { ISource, pageAddress, PageView, problemFrom, problemOf, Theme } from '../src/pages';

const answer = (status: number, body: string): Response =>
  ({ ok: status === 200, status, text: async () => body }) as Response;

/** A server with one file, which a test changes. */
class Server implements ISource {
  path = 'runs/add.profile.json';
  baseUrl = 'http://localhost:8888/user/me/';
  answers: Response = answer(200, '<p>views</p>');
  state: { last_modified: string; size: number } | null = { last_modified: 'monday', size: 1 };
  now: Theme = 'light';
  asked: string[] = [];

  async look() {
    if (this.state === null) {
      throw new Error('404');
    }
    return this.state;
  }

  async ask(url: string) {
    this.asked.push(url);
    return this.answers;
  }

  theme() {
    return this.now;
  }
}

let server: Server;
let view: PageView;

const settled = async () => {
  for (let k = 0; k < 10; k++) {
    await Promise.resolve();
  }
};

async function open(): Promise<void> {
  view = new PageView(server);
  Widget.attach(view, document.body);
  await settled();
}

const frame = () => view.node.querySelector('iframe');
const said = () => Array.from(view.node.querySelectorAll('p'), line => line.textContent);

beforeEach(() => {
  jest.useFakeTimers();
  server = new Server();
});

afterEach(() => {
  view?.dispose();
  jest.useRealTimers();
});

test('the address has the path as the server writes it', () => {
  expect(pageAddress('http://host/user/me/', 'a b/c#d?.json', 'dark')).toBe(
    'http://host/user/me/nki-lab/page/a%20b/c%23d%3F.json?theme=dark'
  );
});

test('a problem is what the server says, or at least its status', async () => {
  const told = answer(422, '{"message": "x is damaged", "help": "write it again"}');
  expect(await problemOf(told)).toEqual({ message: 'x is damaged', help: 'write it again' });
  const proxy = answer(502, '<html>Bad gateway</html>');
  expect((await problemOf(proxy)).message).toBe('The server answered with status 502.');
  const other = answer(500, '{"message": 7}');
  expect((await problemOf(other)).message).toBe('The server answered with status 500.');
  expect(problemFrom(new Error('offline')).message).toBe('The server could not be asked: offline');
});

test('a page is shown in a frame without an origin', async () => {
  await open();
  expect(server.asked).toEqual([
    'http://localhost:8888/user/me/nki-lab/page/runs/add.profile.json?theme=light'
  ]);
  expect(frame()!.srcdoc).toBe('<p>views</p>');
  const allowed = frame()!.getAttribute('sandbox')!.split(' ');
  expect(allowed).toContain('allow-scripts');
  expect(allowed).not.toContain('allow-same-origin');
  expect(frame()!.title).toBe('Views of add.profile.json');
});

test('a problem is one text, with markup as it is', async () => {
  server.answers = answer(422, '{"message": "<img src=x> is no profile", "help": "write one"}');
  await open();
  expect(frame()).toBeNull();
  expect(said()).toEqual(['<img src=x> is no profile', 'write one']);
  expect(view.node.querySelectorAll('[role=alert]').length).toBe(1);
  expect(view.node.querySelector('img')).toBeNull();
});

test('the file is read again when it has changed, and only then', async () => {
  await open();
  const first = frame();
  await view.look();
  expect(frame()).toBe(first);
  server.state = { last_modified: 'tuesday', size: 2 };
  server.answers = answer(200, '<p>other views</p>');
  await jest.advanceTimersByTimeAsync(3000);
  expect(frame()!.srcdoc).toBe('<p>other views</p>');
  expect(server.asked.length).toBe(2);
});

test('a file that goes and comes back is shown again', async () => {
  await open();
  server.state = null;
  server.answers = answer(404, '{"message": "there is no file", "help": ""}');
  await jest.advanceTimersByTimeAsync(3000);
  expect(said()).toEqual(['there is no file']);
  await jest.advanceTimersByTimeAsync(9000);
  expect(server.asked.length).toBe(2);
  server.state = { last_modified: 'tuesday', size: 2 };
  server.answers = answer(200, '<p>back</p>');
  await jest.advanceTimersByTimeAsync(3000);
  expect(frame()!.srcdoc).toBe('<p>back</p>');
});

test('nobody looks at the file of a view that is hidden or closed', async () => {
  await open();
  view.hide();
  server.state = { last_modified: 'tuesday', size: 2 };
  await jest.advanceTimersByTimeAsync(9000);
  expect(server.asked.length).toBe(1);
  view.show();
  await settled();
  expect(server.asked.length).toBe(2);
  view.dispose();
  server.state = { last_modified: 'friday', size: 3 };
  await jest.advanceTimersByTimeAsync(9000);
  expect(server.asked.length).toBe(2);
});

test('an answer that comes too late is not shown', async () => {
  let late: (response: Response) => void = () => undefined;
  const asks = jest.spyOn(server, 'ask').mockImplementationOnce(
    () => new Promise(resolve => (late = resolve))
  );
  await open();
  expect(said()).toEqual(['Reading add.profile.json …']);
  await view.load();
  expect(frame()!.srcdoc).toBe('<p>views</p>');
  late(answer(200, '<p>old</p>'));
  await settled();
  expect(frame()!.srcdoc).toBe('<p>views</p>');
  expect(asks).toHaveBeenCalledTimes(2);
});

test('the page hears of another theme', async () => {
  await open();
  const posted = jest.spyOn(frame()!.contentWindow!, 'postMessage');
  server.now = 'dark';
  view.themeChanged();
  expect(posted.mock.calls).toEqual([[{ nkiTheme: 'dark' }, '*']]);
});
