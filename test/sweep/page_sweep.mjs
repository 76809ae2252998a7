// page_sweep.mjs CHROMIUM PAGE.html: prints the curves of a sweep's page, and what its controls do, as JSON.

import { pathToFileURL } from 'node:url';
import { Browser } from '../report/browser.mjs';

const [program, file] = process.argv.slice(2);
const patience = setTimeout(() => { console.error('the browser takes more than 100 s'); process.exit(3); }, 100_000);
const address = pathToFileURL(file).href;
const browser = await Browser.start(program, 1400, 1000);
const seen = {};
try {
  const count = (selector) => browser.evaluate(`document.querySelectorAll(${JSON.stringify(selector)}).length`);
  await browser.open(address);
  seen.title = await browser.evaluate('document.title');
  seen.heading = await browser.evaluate('byId("shown").textContent');
  seen.legend = await browser.evaluate('[...byId("legend").children].map((key) => key.textContent)');
  seen.curves = await count('#panels .curve');
  seen.medians = await browser.evaluate('medians(data.rows.filter((row) => row[column("placer")] === "fast"), "devices", "makespan_ns")');
  seen.bounds = await browser.evaluate('medians(data.rows, "devices", "lower_bound_ns", (list) => Math.min(...list))');
  seen.dots = [await count('#panels circle'), await count('#panels circle[fill=none]')];
  seen.marks = await browser.evaluate('document.querySelector("#panels .chart").textContent');
  seen.first = await browser.evaluate('[...document.querySelector("#rows tbody tr").cells].slice(0, 4).map((cell) => cell.textContent)');

  await browser.evaluate('byId("y").value = "peak_bytes", byId("y").dispatchEvent(new Event("change")), byId("log-x").click(), [...byId("legend").children].find((key) => key.textContent === "fast").click()');
  seen.alone = [await count('#panels .curve'), await count('#rows tbody tr')];
  await browser.evaluate('[1, 2].forEach(() => byId("rows").querySelectorAll("th button")[2].click())');
  seen.hash = await browser.evaluate('location.hash');
  await browser.open('about:blank');
  await browser.open(address + seen.hash);
  seen.again = await browser.evaluate('[byId("y").value, byId("log-x").checked, byId("legend").querySelector("[aria-pressed=true]").textContent, byId("rows").querySelectorAll("th")[2].getAttribute("aria-sort")]');
  seen.again.push(await count('#panels .curve'), await count('#rows tbody tr'));
  seen.svg = await browser.evaluate('(() => { const made = new DOMParser().parseFromString(chartSvg(document.querySelector("#panels .chart")), "image/svg+xml"); return [made.documentElement.tagName, made.querySelectorAll("parsererror").length]; })()');
  seen.dark = await browser.evaluate('(() => { const before = getComputedStyle(document.body).backgroundColor; byId("theme").click(); return getComputedStyle(document.body).backgroundColor !== before && document.documentElement.dataset.theme === "dark"; })()');
  await browser.resize(390, 844);
  await new Promise((resolve) => setTimeout(resolve, 400));
  seen.wide = await browser.evaluate('document.documentElement.scrollWidth');
  seen.troubles = browser.troubles();
} finally {
  await browser.close();
  clearTimeout(patience);
}
console.log(JSON.stringify(seen, null, 1));
