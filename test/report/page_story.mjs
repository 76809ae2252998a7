// page_story.mjs CHROMIUM PAGE.html: a reader's use of two runs: address, keys, mouse, exports, print; prints JSON.

import { pathToFileURL } from 'node:url';
import { Browser } from './browser.mjs';

const [program, file] = process.argv.slice(2);
const patience = setTimeout(() => { console.error('the browser takes more than 100 s'); process.exit(3); }, 100_000);
const address = pathToFileURL(file).href;
const seen = {};
const browser = await Browser.start(program, 1400, 1000);
try {
  const key = async (name, modifiers = 0) => {
    for (const type of ['keyDown', 'keyUp']) await browser.send('Input.dispatchKeyEvent', { type, key: name, code: name, modifiers, windowsVirtualKeyCode: name === 'Tab' ? 9 : 0, text: type === 'keyDown' && name.length === 1 ? name : undefined });
  };
  const mouse = (type, x, y, modifiers = 0) => browser.send('Input.dispatchMouseEvent', { type, x, y, modifiers, button: type === 'mouseMoved' ? 'none' : 'left', buttons: type === 'mouseReleased' ? 0 : 1, clickCount: 1 });
  const click = async (x, y) => { await mouse('mousePressed', x, y); await mouse('mouseReleased', x, y); };
  const middle = (selector) => browser.evaluate(`(() => { const r = document.querySelector(${JSON.stringify(selector)}).getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()`);
  const later = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

  await browser.open(address);
  seen.top = await browser.evaluate('byId("canvas").getBoundingClientRect().top');
  seen.opened = await browser.evaluate('[page.index, byId("chosen").textContent, document.querySelector("[aria-sort]")?.textContent]');

  // Keys lead from the chosen row of the table to the timeline.
  await browser.evaluate('document.querySelector("tr.chosen .pick-run").focus()');
  await key('ArrowDown');
  seen.row = await browser.evaluate('document.activeElement.textContent');
  await key('ArrowUp');
  seen.stops = 0;
  while (seen.stops < 10 && await browser.evaluate('document.activeElement.id !== "canvas"')) { await key('Tab'); ++seen.stops; }

  // The second row's button draws its run below.
  await click(...await middle('tbody tr:nth-child(2) .below'));
  seen.below = await browser.evaluate('[page.index, page.below, page.view.run.beneath.label, byId("against").textContent]');
  seen.heads = await browser.evaluate('page.view.rows.filter((row) => row.head).map((row) => row.head)');
  seen.end = await browser.evaluate('[page.view.end, ...[page.index, page.below].map((i) => data.runs[i].makespan_ns)]');

  // An idle moment of a device.
  const moment = await browser.evaluate(`(() => {
    const view = page.view;
    for (const row of view.rows) {
      if (row.kind !== 'device') continue;
      for (let j = 0; j < row.lane.start.length; ++j) {
        const a = j ? row.lane.end[j - 1] : 0, b = row.lane.start[j];
        if (b - a > view.end / 20) {
          view.canvas.scrollIntoView({ block: 'start' });
          const box = view.canvas.getBoundingClientRect();
          return [box.x + view.x((a + b) / 2), box.y + row.y + row.height / 2 + axisHeight - view.scroll];
        }
      }
    }
  })()`);
  await mouse('mouseMoved', ...moment);
  seen.idle = await browser.evaluate('byId("tip").textContent');

  // Selects an area over all rows, from a quarter to three quarters of the step.
  const [left, right, y] = await browser.evaluate(`(() => { const v = page.view, b = v.canvas.getBoundingClientRect(), r = v.rows.find((row) => row.kind === 'device');
    return [b.x + v.x(v.end / 4), b.x + v.x(v.end * 3 / 4), b.y + axisHeight + r.y + r.height / 2]; })()`);
  await mouse('mousePressed', left, y, 8);
  for (let i = 1; i <= 4; ++i) await mouse('mouseMoved', left + (right - left) * i / 4, y, 8);
  await mouse('mouseReleased', right, y, 8);
  seen.area = await browser.evaluate('(() => { const { from, to, busy, devices } = areaSums(page.view, page.view.range); return [from / page.view.end, to / page.view.end, busy, devices, byId("area").textContent]; })()');
  await key('z');
  await later(400);
  seen.zoomed = await browser.evaluate('[page.view.from / page.view.end, page.view.to / page.view.end]');
  await browser.evaluate('document.querySelector("input[name=colour][value=type]").click(); byId("critical").click(); page.choose([0, 0])');
  await browser.evaluate('[1, 2].forEach(() => document.querySelectorAll("#comparison th button")[3].click())');
  await browser.evaluate('page.selectArea([15000, 45000, null]), page.isolate(page.view.run.lanes[0].colour[0])');
  await later(500);
  seen.hash = await browser.evaluate('location.hash');

  // Opening the address again restores the view.
  await browser.open('about:blank');
  await browser.open(address + seen.hash);
  seen.again = await browser.evaluate('[page.index, page.below, page.by, page.view.from / page.view.end, page.view.to / page.view.end, byId("critical").checked, String(page.view.chosen)]');
  seen.again_more = await browser.evaluate('[page.state.sort(), page.view.range, page.alone === page.view.run.lanes[0].colour[0], byId("area").hidden]');
  await browser.evaluate('page.selectArea(null), page.isolate(-1)');

  await later(500);
  seen.panels = await browser.evaluate('["pareto", "matrix", "path", "network"].filter((id) => !byId(id).hidden)');
  seen.front = await browser.evaluate('paretoFront([{ time: 1, memory: 9 }, { time: 2, memory: 9 }, { time: 3, memory: 4 }, { time: 2, memory: 5 }]).map((p) => [p.time, p.memory])');
  seen.traffic = await browser.evaluate('[...traffic(decodeRun(page.index))].map(([key, p]) => [key, p.bytes, p.count, p.busy])');
  seen.moved = await browser.evaluate('document.querySelectorAll("#network .layer.moved").length');
  seen.dots = await browser.evaluate('document.querySelectorAll("#pareto .dot title").length');
  seen.svgs = await browser.evaluate(`(() => {
    const texts = [timelineSvg(page.view, 'title & <more>'), tableSvg(document.querySelector('#comparison table')), ...[...document.querySelectorAll('.chart')].map(chartSvg)];
    return texts.map((text) => { const made = new DOMParser().parseFromString(text, 'image/svg+xml'); return [made.documentElement.tagName, made.querySelectorAll('parsererror').length, made.querySelectorAll('rect, path, circle').length, made.documentElement.textContent]; });
  })()`);
  // Largest difference between a memory curve and the sum of the bytes held, over all points.
  seen.held = await browser.evaluate(`Math.max(...page.drawn.flatMap((index) => {
    const run = decodeRun(index);
    return run.memory.flatMap(({ at, held }, device) => [...at].map((time, i) => Math.abs(held[i] - heldAt(run, device, time).reduce((sum, { bytes }) => sum + bytes, 0))));
  }))`);
  await browser.evaluate('byId("canvas").focus(), page.choose([0, 0])');
  await key('m');
  seen.holds = await browser.evaluate('byId("area").textContent');
  await key('Escape');
  // When printed: light colours, the whole table, no interactive parts.
  await browser.evaluate('document.documentElement.dataset.theme = "dark", page.restyle(), dispatchEvent(new Event("beforeprint"))');
  await browser.send('Emulation.setEmulatedMedia', { media: 'print' });
  await browser.resize(1030, 720);
  seen.print = await browser.evaluate(`(() => {
    const table = document.querySelector('#comparison table').getBoundingClientRect(), seen = (id) => byId(id).getBoundingClientRect().height > 0;
    return [document.documentElement.dataset.theme, table.right <= document.querySelector('#comparison').getBoundingClientRect().right, seen('overview'), seen('keys'), seen('canvas'), seen('marks')];
  })()`);
  await browser.send('Emulation.setEmulatedMedia', { media: '' });
  await browser.evaluate('dispatchEvent(new Event("afterprint"))');
  seen.after_print = await browser.evaluate('document.documentElement.dataset.theme');
  await browser.evaluate('document.documentElement.dataset.theme = "light", page.restyle()');
  seen.troubles = browser.troubles();
  await browser.evaluate('byId("critical").click(); byId("fit").click()');
  for (const [width, height] of [[1400, 1000], [1000, 900], [390, 844]]) {
    await browser.resize(width, height);
    await browser.evaluate('scrollTo(0, 0)');
    await later(400);
    (seen.widths ||= []).push(await browser.evaluate('document.documentElement.scrollWidth'));
  }
} finally {
  await browser.close();
  clearTimeout(patience);
}
console.log(JSON.stringify(seen, null, 1));
