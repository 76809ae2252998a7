// page_yard.mjs CHROMIUM PAGE.html: prints the tables and charts of the Yard's page as JSON.

import { pathToFileURL } from 'node:url';
import { Browser } from '../report/browser.mjs';

const [program, file] = process.argv.slice(2);
const patience = setTimeout(() => { console.error('the browser takes more than 100 s'); process.exit(3); }, 100_000);
const browser = await Browser.start(program, 1400, 1000);
const seen = {};
try {
  const cells = (id, row) => browser.evaluate(`[...byId(${JSON.stringify(id)}).querySelectorAll('tbody tr')[${row}].cells].map((cell) => cell.textContent)`);
  await browser.open(pathToFileURL(file).href);
  seen.title = await browser.evaluate('document.title');
  seen.first = await cells('ranks', 0);
  seen.instance = await cells('instances', 0);
  seen.profiles = await browser.evaluate('data.placers.map((placer) => profile(placer).points)');
  seen.curves = await browser.evaluate('[document.querySelectorAll("#profiles .curve").length, document.querySelectorAll("#curves .curve").length]');
  await browser.evaluate('byId("ranks").querySelectorAll("th button")[0].click()');
  seen.sorted = await cells('ranks', 0);
  seen.svg = await browser.evaluate('new DOMParser().parseFromString(chartSvg(document.querySelector("#profiles .chart")), "image/svg+xml").querySelectorAll("parsererror").length');
  await browser.resize(390, 844);
  await new Promise((resolve) => setTimeout(resolve, 400));
  seen.wide = await browser.evaluate('document.documentElement.scrollWidth');
  seen.troubles = browser.troubles();
} finally {
  await browser.close();
  clearTimeout(patience);
}
console.log(JSON.stringify(seen));
