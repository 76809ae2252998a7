// page_check.mjs CHROMIUM PAGE.html PICTURE.png: uses the page as a reader would, and prints what it shows as JSON.

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

  // Share of the pixels in the first device's row that differ from the empty row.
  seen.painted = await browser.evaluate(`(() => {
    const view = page.view, row = view.rows.find((r) => r.kind === 'device'), c = view.context;
    const y = Math.round((row.y + axisHeight + row.height / 2) * view.ratio), x = Math.round(view.left * view.ratio);
    const pixels = c.getImageData(x, y, Math.round((view.right - view.left) * view.ratio), 1).data;
    let painted = 0;
    for (let i = 0; i < pixels.length; i += 4) painted += Math.max(...pixels.slice(i, i + 3)) - Math.min(...pixels.slice(i, i + 3)) > 24;
    return painted / (pixels.length / 4);
  })()`);

  // Draw times of 60 windows: the whole step, then smaller ones that move. Draws to the canvas only, not the screen.
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

  // Canvas calls for a frame of the whole step. Its time depends on rectangles and line corners, not on spans.
  seen.calls = await browser.evaluate(`(() => {
    const c = page.view.context, count = {};
    for (const name of ['fillRect', 'lineTo', 'drawImage']) {
      const draw = c[name];
      c[name] = (...all) => { count[name] = (count[name] || 0) + 1; return draw.apply(c, all); };
    }
    page.view.draw();
    for (const name of Object.keys(count)) delete c[name];
    return count;
  })()`);
  // A pointer over a span outlines it without redrawing the canvas.
  const before = await browser.evaluate('page.view.frames');
  const over = await browser.evaluate(`(() => {
    const view = page.view, row = view.rows.find((r) => r.kind === 'device'), box = view.canvas.getBoundingClientRect(), { start, end } = row.lane;
    const j = start.findIndex((s, i) => end[i] - s === Math.max(...end.map((e, k) => e - start[k])));
    return [box.x + view.x((start[j] + end[j]) / 2), box.y + axisHeight + row.y + row.height / 2, j];
  })()`);
  await browser.send('Input.dispatchMouseEvent', { type: 'mouseMoved', x: over[0], y: over[1], button: 'none' });
  await browser.evaluate('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))');
  seen.hover = await browser.evaluate(`[page.view.hover && page.view.hover[1] === ${over[2]}, getComputedStyle(byId('hover')).display, page.view.frames - ${before}]`);
  await browser.send('Input.dispatchMouseEvent', { type: 'mouseMoved', x: 2, y: 2, button: 'none' });
  // Largest distance, in pixels, of the top of the painted memory curve from the bytes held.
  seen.memory_off = await browser.evaluate(`(() => {
    const view = page.view, c = view.context, r = view.ratio, rows = view.rows.filter((row) => row.kind === 'memory' && row.y + row.height < view.scroll + view.height - axisHeight - 2);
    view.draw();
    return Math.max(...rows.flatMap((row) => Array.from({ length: 60 }, (_, k) => {
      const x = Math.floor(view.left) + 7 + k * Math.floor((view.right - view.left - 14) / 60), { at, held } = row.curve;
      let most = held[Math.max(0, upperBound(at, view.time(x)) - 1)];
      for (let i = upperBound(at, view.time(x)); at[i] < view.time(x + 1); ++i) most = Math.max(most, held[i]);
      const pixels = c.getImageData(x * r, (row.y + axisHeight - view.scroll) * r, 1, row.height * r).data, ink = [1, 3, 5].map((i) => parseInt(view.theme.accent.slice(i, i + 2), 16));
      let top = 0;
      while (top < row.height && Math.abs(pixels[4 * top] - ink[0]) + Math.abs(pixels[4 * top + 1] - ink[1]) + Math.abs(pixels[4 * top + 2] - ink[2]) > 200) ++top;
      return Math.abs(top - row.height + most / view.memoryTop * row.height);
    })));
  })()`);

  // A reader's actions: search, keys, critical path, colours, another run, sorting.
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
