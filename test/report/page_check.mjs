// page_check.mjs CHROMIUM PAGE.html PICTURE.png: opens the page as a reader would, and prints what was seen as JSON.

import { writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { Browser } from './browser.mjs';

const [program, file, picture] = process.argv.slice(2);
const patience = setTimeout(() => { console.error('the browser takes more than 100 s'); process.exit(3); }, 100_000);
const browser = await Browser.start(program, 1500, 1300);
const seen = {};
try {
  await browser.open(pathToFileURL(file).href);
  seen.title = await browser.evaluate('document.title');
  seen.first_draw_ms = await browser.evaluate('Number(document.documentElement.dataset.firstDraw)');
  seen.rows = await browser.evaluate('document.querySelectorAll("#comparison tbody tr").length');
  seen.spans = await browser.evaluate('page.view.run.lanes.reduce((sum, lane) => sum + lane.item.length, 0)');
  seen.images = await browser.evaluate('document.querySelectorAll("img, iframe, object, embed, script:not(#data)").length');
  writeFileSync(picture, await browser.screenshot());

  // The pixels of the first device's row: how many differ from the empty row.
  seen.painted = await browser.evaluate(`(() => {
    const view = page.view, row = view.rows.find((r) => r.kind === 'device'), c = view.context;
    const y = Math.round((row.y + axisHeight + row.height / 2) * view.ratio), x = Math.round(view.left * view.ratio);
    const pixels = c.getImageData(x, y, Math.round((view.right - view.left) * view.ratio), 1).data;
    let painted = 0;
    for (let i = 0; i < pixels.length; i += 4) painted += Math.max(...pixels.slice(i, i + 3)) - Math.min(...pixels.slice(i, i + 3)) > 24;
    return painted / (pixels.length / 4);
  })()`);

  // Frames while zooming in and moving: the whole step, and 60 windows inside it. A draw alone, without the screen.
  seen.draws = await browser.evaluate(`(() => {
    const view = page.view, times = [], end = view.end;
    for (let i = 0; i < 60; ++i) {
      const wide = end * 0.93 ** i, middle = end * (0.3 + 0.4 * (i % 7) / 7);
      view.setWindow(middle - wide / 2, middle + wide / 2);
      const began = performance.now();
      view.draw();
      view.context.getImageData(0, 0, 1, 1);
      times.push(performance.now() - began);
    }
    times.sort((a, b) => a - b);
    return { median_ms: times[30], worst_ms: times[59] };
  })()`);
  await browser.evaluate('page.view.setWindow(0, page.view.end)');

  // What a reader does: search, keys, critical path, colours, another run, sorting.
  const key = async (text) => {
    await browser.send('Input.dispatchKeyEvent', { type: 'keyDown', key: text, text: text.length === 1 ? text : undefined });
    await browser.send('Input.dispatchKeyEvent', { type: 'keyUp', key: text });
  };
  const settled = () => browser.evaluate(`new Promise((done) => {
    const look = () => page.controls.gliding ? setTimeout(look, 20) : requestAnimationFrame(() => done());
    look();
  })`);
  await browser.evaluate('byId("canvas").focus()');
  await key('+');
  await settled();
  seen.zoomed = await browser.evaluate('(page.view.to - page.view.from) / page.view.end');
  await key('ArrowLeft');
  await settled();
  seen.moved = await browser.evaluate('page.view.from / page.view.end');
  await key('f');
  await settled();
  seen.whole = await browser.evaluate('page.view.from === 0 && page.view.to === page.view.end');
  await key('/');
  seen.search_focused = await browser.evaluate('document.activeElement.id');
  await browser.evaluate('byId("search").value = page.view.run.graph.ops[0]; byId("search").dispatchEvent(new Event("input"))');
  seen.found = await browser.evaluate('page.controls.matches.length');
  await key('Enter');
  await settled();
  seen.status = await browser.evaluate('byId("status").textContent');
  await key('Escape');
  await key('c');
  seen.critical = await browser.evaluate('page.view.showPath && page.view.run.path.length');
  seen.colourings = await browser.evaluate(`['layer', 'type', 'phase'].map((by) => {
    document.querySelector('input[name=colour][value=' + by + ']').click();
    return byId('legend').textContent.length;
  })`);
  seen.runs = await browser.evaluate('[...byId("run").options].map((o) => { page.show(Number(o.value)); return byId("cards").children.length; })');
  seen.sorted = await browser.evaluate(`(() => {
    const table = document.querySelector('#comparison table'), names = () => [...table.tBodies[0].rows].map((r) => r.dataset.run).join();
    const before = names();
    table.querySelectorAll('th button')[1].click();
    const once = names();
    table.querySelectorAll('th button')[1].click();
    return { before, once, twice: names() };
  })()`);
  seen.script_error = await browser.evaluate('document.documentElement.dataset.scriptError || ""');
  seen.troubles = browser.troubles();
} finally {
  await browser.close();
  clearTimeout(patience);
}
console.log(JSON.stringify(seen, null, 1));
