// Tables and charts as SVG files, in their present state.

const xml = (text) => String(text).replace(/[&<>"]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c]);

// The texts of a table, in its present order.
function tableSvg(table) {
  const rows = [...table.rows].map((row) => [...row.cells].map((cell) => (cell.querySelector('button:not(.below)') || cell).textContent.trim()));
  const wide = rows[0].map((_, k) => 14 + 7 * Math.max(...rows.map((row) => row[k].length))), width = wide.reduce((a, b) => a + b, 20);
  const lines = rows.map((row, i) => {
    let x = 10;
    return row.map((text, k) => {
      x += wide[k];
      const left = k === 0 || rows.length && table.rows[0].cells[k].classList.contains('name');
      return `<text x="${left ? x - wide[k] + 4 : x - 6}" y="${22 + 22 * i}"${left ? '' : ' text-anchor="end"'}${i ? '' : ' font-weight="600"'}>${xml(text)}</text>`;
    }).join('') + `<path d="M10 ${29 + 22 * i}H${width - 10}" stroke="#d5dbe2"/>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${rows.length * 22 + 20}" font-family="sans-serif" font-size="12">\n` +
    `<rect width="100%" height="100%" fill="#fff"/>\n${lines.join('\n')}\n</svg>\n`;
}

// A chart of the page, with its style sheet replaced by computed colours.
function chartSvg(chart) {
  const copy = chart.cloneNode(true), style = ['fill', 'stroke', 'stroke-width', 'stroke-dasharray', 'font-size', 'font-weight', 'text-anchor', 'opacity'];
  const from = [chart, ...chart.querySelectorAll('*')], to = [copy, ...copy.querySelectorAll('*')];
  from.forEach((node, i) => {
    const computed = getComputedStyle(node);
    for (const name of style) to[i].setAttribute(name, computed.getPropertyValue(name));
    to[i].removeAttribute('class');
  });
  const { width, height } = chart.viewBox.baseVal;
  copy.setAttribute('xmlns', 'http://www.w3.org/2000/svg');
  copy.setAttribute('width', width);
  copy.setAttribute('height', height);
  copy.setAttribute('font-family', 'sans-serif');
  copy.prepend(svgNode('rect', { width: '100%', height: '100%', fill: getComputedStyle(document.body).getPropertyValue('--card') }));
  return copy.outerHTML + '\n';
}

function save(name, text) {
  const link = element('a', { href: URL.createObjectURL(new Blob([text], { type: 'image/svg+xml' })), download: name.replace(/[^\w.-]+/g, '_') + '.svg' });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
