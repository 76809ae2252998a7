// page_mesh.mjs CHROMIUM PAGE.html: prints the squares' titles and colours of each run's plan, and its texts, as JSON.

import { pathToFileURL } from 'node:url';
import { Browser } from './browser.mjs';

const [program, file] = process.argv.slice(2);
const patience = setTimeout(() => { console.error('the browser takes more than 100 s'); process.exit(3); }, 100_000);
const browser = await Browser.start(program, 1400, 1000);
const seen = { runs: [] };
try {
  await browser.open(pathToFileURL(file).href);
  for (let index = 0; index < await browser.evaluate('data.runs.length'); ++index) {
    await browser.evaluate(`page.show(${index})`);
    await new Promise((resolve) => setTimeout(resolve, 200));
    seen.runs.push(await browser.evaluate(`byId('mesh').hidden ? null : {
      titles: [...document.querySelectorAll('#mesh rect title')].map((title) => title.textContent),
      colours: new Set([...document.querySelectorAll('#mesh rect')].map((box) => box.getAttribute('fill'))).size,
      texts: [...document.querySelectorAll('#mesh svg text')].map((text) => text.textContent),
      wide: document.documentElement.scrollWidth,
    }`));
  }
  seen.troubles = browser.troubles();
} finally {
  await browser.close();
  clearTimeout(patience);
}
console.log(JSON.stringify(seen, null, 1));
