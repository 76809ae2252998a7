// page_held.mjs CHROMIUM PAGE.html: compares memory curves with the sum of the bytes held at each point; prints JSON.

import { pathToFileURL } from 'node:url';
import { Browser } from './browser.mjs';

const [program, file] = process.argv.slice(2);
const patience = setTimeout(() => { console.error('the browser takes more than 100 s'); process.exit(3); }, 100_000);
const browser = await Browser.start(program, 1000, 800);
let seen = {};
try {
  await browser.open(pathToFileURL(file).href);
  seen = await browser.evaluate(`(() => {
    let points = 0, worst = 0;
    for (const index of page.drawn) {
      const run = decodeRun(index);
      run.memory.forEach(({ at, held }, device) => at.forEach((time, i) => {
        ++points;
        worst = Math.max(worst, Math.abs(held[i] - heldAt(run, device, time).reduce((sum, { bytes }) => sum + bytes, 0)));
      }));
    }
    return { points, worst };
  })()`);
  seen.troubles = browser.troubles();
} finally {
  await browser.close();
  clearTimeout(patience);
}
console.log(JSON.stringify(seen, null, 1));
