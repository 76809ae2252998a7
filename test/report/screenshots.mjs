// screenshots.mjs CHROMIUM FOLDER PAGE.html...: takes pictures of whole pages at three widths, in light and dark, as
// FOLDER/PAGE-WIDTH-THEME.png. Exits with 1 if a page throws, requests anything, or is wider than its window.

import { mkdirSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Browser } from './browser.mjs';

const [program, folder, ...pages] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
let failed = 0;
for (const theme of ['light', 'dark']) {
  const browser = await Browser.start(program, 1400, 1000, theme === 'dark');
  try {
    for (const page of pages) {
      for (const [width, height] of [[1400, 1000], [1000, 800], [390, 844]]) {
        await browser.resize(width, height);
        await browser.open('about:blank');
        await browser.open(pathToFileURL(page).href);
        await new Promise((resolve) => setTimeout(resolve, 400));  // the charts are drawn after the timeline
        const [wide, tall] = await browser.evaluate('[document.documentElement.scrollWidth, document.documentElement.scrollHeight]');
        const clip = { x: 0, y: 0, width, height: tall, scale: 1 }, name = `${basename(page, '.html')}-${width}-${theme}.png`;
        const { data } = await browser.send('Page.captureScreenshot', { format: 'png', captureBeyondViewport: true, clip });
        writeFileSync(join(folder, name), Buffer.from(data, 'base64'));
        const troubles = [...browser.troubles(), ...(wide > width ? [`is ${wide} pixels wide`] : [])];
        browser.events.length = 0;
        failed += troubles.length;
        for (const trouble of troubles) console.error(`${name}: ${trouble}`);
      }
    }
  } finally {
    await browser.close();
  }
}
console.log(`${6 * pages.length} pictures in ${folder}`);
process.exit(failed ? 1 : 0);
