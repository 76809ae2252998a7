// page_network.mjs CHROMIUM PAGE.html: prints the graph of layers, and the effects of clicks and keys in it, as JSON.

import { pathToFileURL } from 'node:url';
import { Browser } from './browser.mjs';

const [program, file] = process.argv.slice(2);
const patience = setTimeout(() => { console.error('the browser takes more than 100 s'); process.exit(3); }, 100_000);
const address = pathToFileURL(file).href;
const browser = await Browser.start(program, 1400, 1000);
const seen = {};
try {
  const later = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  const wires = () => browser.evaluate('["#network .wires .wire", "#network .wires .wire.sent"].map((each) => document.querySelectorAll(each).length)');
  const shown = () => browser.evaluate('page.view.run.lanes.filter((lane) => lane.kind === "device").flatMap((lane) => [...lane.shown]).reduce((a, b) => a + b, 0)');
  await browser.open(address);
  await later(300);
  await browser.evaluate('page.show(0)');
  await later(300);
  seen.boxes = await browser.evaluate(`Object.fromEntries([...document.querySelectorAll('#network .layer')].map((group) => {
    const { x, y } = group.getBoundingClientRect();
    return [group.dataset.box, [x, y]];
  }))`);
  seen.overlaps = await browser.evaluate(`(() => {
    const boxes = [...document.querySelectorAll('#network .layer .box')].map((box) => box.getBoundingClientRect());
    return boxes.filter((a, i) => boxes.some((b, j) => j > i && a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)).length;
  })()`);
  seen.wires = await wires();

  // A click on a layer shows its spans alone, also on reopening the address. Arrow keys select the next. Escape shows all.
  await browser.evaluate('document.querySelector("#network .layer[data-box=left]").dispatchEvent(new MouseEvent("click"))');
  seen.picked = [await shown(), await browser.evaluate('document.querySelectorAll("#network .layer:not(.picked)").length + 1'), await browser.evaluate('byId("picked").textContent')];
  await later(400);
  seen.hash = await browser.evaluate('location.hash');
  await browser.open('about:blank');
  await browser.open(address + seen.hash);
  await later(300);
  seen.again = [await browser.evaluate('page.picked'), await browser.evaluate('document.querySelector("#network .layer.picked").dataset.box'), await shown()];
  await browser.evaluate('document.querySelector("#network .layer[data-box=left]").focus()');
  for (const type of ['keyDown', 'keyUp']) await browser.send('Input.dispatchKeyEvent', { type, key: 'ArrowRight', code: 'ArrowRight' });
  seen.arrow = await browser.evaluate('document.activeElement.dataset.box');
  for (const type of ['keyDown', 'keyUp']) await browser.send('Input.dispatchKeyEvent', { type, key: 'Escape', code: 'Escape' });
  seen.all = await shown();

  await browser.evaluate('page.show(1, 0)');
  await later(300);
  seen.sent = await wires();
  seen.moved = await browser.evaluate('[...document.querySelectorAll("#network .layer.moved")].map((group) => group.dataset.box)');
  seen.table = await browser.evaluate('[...document.querySelectorAll("#moved tbody td")].map((cell) => cell.textContent)');
  seen.legend = await browser.evaluate('[...document.querySelectorAll("#network .chart > text")].map((text) => text.textContent).join("|")');
  seen.wide = await browser.evaluate('document.documentElement.scrollWidth');

  seen.spread = await browser.evaluate('[spread([0, 0, 0], [10, 10]), spread([0, 10, 30], [5, 5]), spread([1, 2], [1])]');
  seen.columns = await browser.evaluate(`[[4, [[0, 1], [0, 2], [1, 3], [2, 3]]], [4, [[0, 1], [1, 2], [2, 1], [2, 3]]], [3, [[0, 2], [1, 0]]]]
    .map(([n, edges]) => columnsOf(n, edges)).map((each) => [[...each.column], [...each.back]])`);
  seen.folded = await browser.evaluate('new Set(boxNames(["stem", ...Array.from({ length: 500 }, (_, i) => `tail.${Math.floor(i / 5)}/part${i % 5}`)]).values()).size');
  seen.binned = await browser.evaluate('new Set(boxNames(Array.from({ length: 900 }, (_, i) => `conv${i}`)).values()).size');
  seen.troubles = browser.troubles();
} finally {
  await browser.close();
  clearTimeout(patience);
}
console.log(JSON.stringify(seen, null, 1));
