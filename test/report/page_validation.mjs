// page_validation.mjs CHROMIUM PAGE.html: prints the page's comparison of predictions with measurements as JSON.

import { pathToFileURL } from 'node:url';
import { Browser } from './browser.mjs';

const [program, file] = process.argv.slice(2);
const patience = setTimeout(() => { console.error('the browser takes more than 100 s'); process.exit(3); }, 100_000);
const browser = await Browser.start(program, 1400, 1000);
const seen = {};
try {
  const later = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  await browser.open(pathToFileURL(file).href);
  await later(300);
  seen.opened = await browser.evaluate('[page.index, page.below]');
  seen.card = await browser.evaluate('document.querySelector("#cards .card:nth-child(2)").textContent');
  seen.panel = await browser.evaluate('byId("validation").textContent');
  seen.worst = await browser.evaluate('[...document.querySelector("#validation tbody tr").cells].map((cell) => cell.textContent)');
  seen.errors = await browser.evaluate('[...document.querySelectorAll("#validation .error")].map((bar) => [Number(bar.getAttribute("width")), bar.classList.contains("bad")])');
  seen.dots = await browser.evaluate('document.querySelectorAll("#validation .dot").length');
  seen.ticks = await browser.evaluate('[roundTicks(90, 1100, true, 9), roundTicks(0.9, 5.1, false, 5), ["20.0\u202fµs", "1.50\u202fms", "100\u202fns"].map(tickText)]');

  // A click on a name in the table shows its op in the timeline of the predicted run.
  await browser.evaluate('document.querySelector("#validation .link").click()');
  await later(400);
  seen.chosen = [await browser.evaluate('byId("status").textContent'), await browser.evaluate('page.view.run.lanes[page.view.chosen[0]].run.source.label')];

  // The chart of all placements: a click on a dot selects a placement, and the panel shows it.
  seen.ranking = await browser.evaluate('byId("ranking").textContent');
  seen.placements = await browser.evaluate('document.querySelectorAll("#ranking circle title").length');
  await browser.evaluate('document.querySelectorAll("#ranking .dot")[1].dispatchEvent(new MouseEvent("click"))');
  await later(300);
  seen.second = [await browser.evaluate('page.index'), await browser.evaluate('document.querySelector("#validation h2").textContent'), await browser.evaluate('document.querySelector("#validation .tag").className')];
  await browser.resize(390, 844);
  await later(500);
  seen.wide = await browser.evaluate('document.documentElement.scrollWidth');
  seen.troubles = browser.troubles();
} finally {
  await browser.close();
  clearTimeout(patience);
}
console.log(JSON.stringify(seen, null, 1));
