// Parts of charts: axes, names, legends. A chart is drawn at the width of its panel, so that its text keeps its size.

const svgNode = (tag, attributes = {}, ...children) => {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
};

// Width in pixels for a chart of a panel across the page, and for one of two charts side by side.
const chartRoom = () => Math.max(280, document.querySelector('main').clientWidth - (innerWidth > 760 ? 84 : 60));
const halfRoom = () => Math.min(640, chartRoom());

// Round numbers between `low` and `high`: in steps of 1, 2 or 5 times a power of ten; on a logarithmic axis multiples
// of powers of ten, as many of each as fit.
function roundTicks(low, high, log, most) {
  const ticks = [];
  if (log) {
    for (const factors of [[1, 1.5, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]]) {
      ticks.length = 0;
      for (let power = 10 ** Math.floor(Math.log10(low)); power <= high; power *= 10)
        for (const factor of factors) if (factor * power >= low && factor * power <= high) ticks.push(factor * power);
      if (ticks.length <= most) break;
    }
    return ticks.length > most ? ticks.filter((_, i) => i % Math.ceil(ticks.length / most) === 0) : ticks;
  }
  const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough)), step = [1, 2, 5, 10].find((k) => k * power >= rough * 0.999) * power;
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high * (1 + 1e-9); ++k) ticks.push(k * step);
  return ticks;
}

// Names beside dots {x, y, name}, in the order of the dots. A name is put at the first of four places where it covers
// no dot and no other name, and left out if there is none.
function nameDots(chart, dots, [left, top, right, bottom]) {
  const taken = dots.map(({ x, y }) => [x - 5, y - 5, x + 5, y + 5]);
  for (const { x, y, name } of dots) {
    const wide = 6.6 * name.length;
    for (const [side, base] of [[1, -7], [-1, -7], [1, 15], [-1, 15]]) {
      const from = side > 0 ? x + 6 : x - 6 - wide, box = [from, y + base - 9, from + wide, y + base + 2];
      if (box[0] < left || box[1] < top || box[2] > right || box[3] > bottom || taken.some((b) => b[0] < box[2] && box[0] < b[2] && b[1] < box[3] && box[1] < b[3])) continue;
      taken.push(box);
      chart.append(svgNode('text', { x: x + 6 * side, y: y + base, 'text-anchor': side > 0 ? 'start' : 'end' }, name));
      break;
    }
  }
}

// The chart of a panel, and the button that saves it.
function putChart(id, title, ...children) {
  const panel = byId(id), button = element('button', { type: 'button', class: 'plain', title: 'Save as SVG' }, 'SVG');
  const chart = children.map((child) => (child.tagName === 'svg' ? child : child.querySelector('svg.chart'))).find(Boolean);
  if (chart) chart.style.maxWidth = chart.viewBox.baseVal.width * (chart.classList.contains('network') ? 1 : 1.15) + 'px';
  button.addEventListener('click', () => save(title, chartSvg(chart)));
  panel.hidden = false;
  panel.replaceChildren(element('div', { class: 'bar' }, element('h2', {}, title), ...(chart ? [button] : [])), ...children);
}

// The legend of a chart, in lines below it; returns where the last line ends. An entry has a `text`, and a `box` or a
// `ramp` of colours (or attributes), or the class of a `line`, a `dot`, a `band` or a `frame`.
function chartLegend(chart, left, top, width, entries) {
  let x = left, y = top;
  for (const { text, box, ramp, line, dot, band, frame } of entries) {
    const mark = ramp ? 90 : line ? 22 : box || dot || band || frame ? 11 : -6, wide = mark + 6 + 6.3 * text.length + 16;
    if (x > left && x + wide > width) { x = left; y += 19; }
    const middle = y + 6;
    if (ramp) ramp.forEach((colour, k) => chart.append(svgNode('rect', { x: x + k * mark / ramp.length, y, width: mark / ramp.length + 0.3, height: 11, ...(colour.class ? colour : { fill: colour }) })));
    else if (line) chart.append(svgNode('path', { class: line, d: `M${x} ${middle}h${mark}` }));
    else if (dot) chart.append(svgNode('circle', { class: dot, cx: x + 5.5, cy: middle, r: 4.5 }));
    else if (frame) chart.append(svgNode('rect', { class: frame, x: x + 1, y: y + 1, width: 9, height: 9, rx: 2 }));
    else if (box || band) chart.append(svgNode('rect', { x, y, width: 11, height: 11, rx: 2, ...(band ? { class: band } : { fill: box }) }));
    chart.append(svgNode('text', { class: 'soft', x: x + mark + 6, y: middle + 4 }, text));
    x += wide;
  }
  return y + 19;
}
