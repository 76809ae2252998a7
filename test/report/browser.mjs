// A headless Chromium, driven through its debugging pipe. Needs nothing but Node.

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export class Browser {
  static async start(program, width, height, dark = false) {
    const browser = new Browser();
    browser.folder = mkdtempSync(join(tmpdir(), 'trainyard-browser-'));
    browser.process = spawn(program, ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
      '--disable-background-networking', '--disable-component-update', '--disable-sync', '--hide-scrollbars',
      `--user-data-dir=${browser.folder}`, '--remote-debugging-pipe', 'about:blank'],
    { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });
    browser.waiting = new Map();
    browser.events = [];
    browser.next = 1;
    browser.process.on('exit', () => { for (const { reject } of browser.waiting.values()) reject(new Error('the browser ended')); });
    browser.process.on('error', (e) => { for (const { reject } of browser.waiting.values()) reject(e); });
    let text = '';
    browser.process.stdio[4].on('data', (data) => {
      const messages = (text + data).split('\0');
      text = messages.pop();
      for (const message of messages) browser.receive(JSON.parse(message));
    });
    const { targetInfos } = await browser.send('Target.getTargets');
    const target = targetInfos.find((t) => t.type === 'page');
    ({ sessionId: browser.session } = await browser.send('Target.attachToTarget', { targetId: target.targetId, flatten: true }));
    for (const domain of ['Page', 'Runtime', 'Log', 'Network']) await browser.send(`${domain}.enable`);
    await browser.resize(width, height);
    await browser.send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: dark ? 'dark' : 'light' }] });
    return browser;
  }

  receive(message) {
    const waiting = this.waiting.get(message.id);
    if (!waiting) return void this.events.push(message);
    this.waiting.delete(message.id);
    if (message.error) waiting.reject(new Error(message.error.message));
    else waiting.resolve(message.result);
  }

  send(method, params = {}) {
    const id = this.next++;
    this.process.stdio[3].write(JSON.stringify({ id, method, params, sessionId: this.session }) + '\0');
    return new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject }));
  }

  resize(width, height) {
    return this.send('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: false });
  }

  async open(address) {
    const before = this.events.length;
    await this.send('Page.navigate', { url: address });
    while (!this.events.slice(before).some((e) => e.method === 'Page.loadEventFired')) await new Promise((resolve) => setTimeout(resolve, 20));
  }

  // Value of an expression in the page; waits if it is a promise.
  async evaluate(expression) {
    const { result, exceptionDetails } = await this.send('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description || exceptionDetails.text);
    return result.value;
  }

  async screenshot() {
    const { data } = await this.send('Page.captureScreenshot', { format: 'png' });
    return Buffer.from(data, 'base64');
  }

  // Problems in the page so far: exceptions, errors that the browser logged, requests for anything but the file itself.
  troubles() {
    return this.events.flatMap(({ method, params }) => {
      if (method === 'Runtime.exceptionThrown') return [params.exceptionDetails.exception?.description || params.exceptionDetails.text];
      if (method === 'Log.entryAdded' && params.entry.level === 'error') return [params.entry.text];
      if (method === 'Network.requestWillBeSent' && !/^(file|data):/.test(params.request.url)) return [`request: ${params.request.url}`];
      return [];
    });
  }

  async close() {
    const ended = new Promise((resolve) => this.process.once('exit', resolve));
    await this.send('Browser.close').catch(() => {});
    await ended;
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  }
}
