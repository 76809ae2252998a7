// page_lanes.mjs CHROMIUM PAGE.html: prints the texts of the timeline's rows, and how much its marks hide, as JSON.

import { pathToFileURL } from 'node:url';
import { Browser } from './browser.mjs';

const [program, file] = process.argv.slice(2);
const patience = setTimeout(() => { console.error('the browser takes more than 100 s'); process.exit(3); }, 100_000);
const browser = await Browser.start(program, 1500, 1300);
const seen = {};
try {
  await browser.open(pathToFileURL(file).href);
  seen.chosen = await browser.evaluate('byId("chosen").textContent');
  const marks = () => browser.evaluate('[...byId("marks").children].map((mark) => mark.lastChild.textContent)');
  seen.marks = await marks();
  seen.texts = await browser.evaluate(`(() => {
    const c = page.view.context, draw = c.fillText, texts = [];
    c.fillText = (...all) => { texts.push(all[0]); draw.apply(c, all); };
    page.view.draw();
    c.fillText = draw;
    return texts;
  })()`);
  // Positions in the first heading: the end of its text and the start of its rule.
  seen.heading = await browser.evaluate(`(() => {
    const view = page.view, c = view.context, rect = c.fillRect;
    let rule = 0;
    c.fillRect = (x) => { rule = x; };
    view.drawHead(view.rows[0]);
    c.fillRect = rect;
    return [16 + c.measureText(view.rows[0].head).width, rule];
  })()`);
  // Share of the timeline's pixels that are nearly black, before and after the critical path is drawn.
  const dark = () => browser.evaluate(`(() => {
    const view = page.view, x = Math.round(view.left * view.ratio), width = Math.round((view.right - view.left) * view.ratio);
    view.draw();
    const pixels = view.context.getImageData(x, axisHeight, width, 120).data;
    let count = 0;
    for (let i = 0; i < pixels.length; i += 4) count += Math.max(pixels[i], pixels[i + 1], pixels[i + 2]) < 70;
    return count / (pixels.length / 4);
  })()`);
  seen.dark = [await dark()];
  seen.path = await browser.evaluate('byId("critical").click(), page.view.run.path.length');
  seen.dark.push(await dark());
  seen.types = await browser.evaluate(`(() => {
    const run = page.view.run, { op, names } = colouring(run, 'type');
    return Object.fromEntries(run.graph.ops.map((_, i) => [run.graph.types[run.graph.type[i]], names[op(i, run.graph)]]));
  })()`);
  await browser.evaluate('page.choose([0, 3]), page.view.setWindow(0, page.view.end / 2), page.view.draw()');
  seen.more_marks = (await marks()).filter((text) => !seen.marks.includes(text));
  seen.svg_marks = await browser.evaluate(`(() => {
    const text = new DOMParser().parseFromString(timelineSvg(page.view, 'title'), 'image/svg+xml').documentElement.textContent;
    return timelineMarks(page.view).every((mark) => text.includes(mark.text));
  })()`);
  seen.troubles = browser.troubles();
} finally {
  await browser.close();
  clearTimeout(patience);
}
console.log(JSON.stringify(seen, null, 1));
