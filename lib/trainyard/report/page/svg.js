// The timeline as an SVG file, drawn by the same code as the canvas.

// The part of a canvas context's interface that the timeline uses.
class SvgContext {
  constructor(canvas, width, height) {
    Object.assign(this, { measure: canvas.getContext('2d'), width, height, parts: [], path: '', clips: 0, depth: [0], stack: [] });
    Object.assign(this, { fillStyle: '#000', strokeStyle: '#000', globalAlpha: 1, lineWidth: 1, font: '12px sans-serif', textAlign: 'left', dash: [], offset: [0, 0] });
  }
  setTransform() {}
  translate(x, y) { this.offset = [this.offset[0] + x, this.offset[1] + y]; }
  save() { this.stack.push([this.fillStyle, this.strokeStyle, this.globalAlpha, this.lineWidth, this.offset]); this.depth.push(0); }
  restore() {
    [this.fillStyle, this.strokeStyle, this.globalAlpha, this.lineWidth, this.offset] = this.stack.pop();
    this.parts.push('</g>'.repeat(this.depth.pop()));
  }
  at(x, y) { return `${+(x + this.offset[0]).toFixed(2)} ${+(y + this.offset[1]).toFixed(2)}`; }
  beginPath() { this.path = ''; }
  moveTo(x, y) { this.path += 'M' + this.at(x, y); }
  lineTo(x, y) { this.path += (this.path ? 'L' : 'M') + this.at(x, y); }
  bezierCurveTo(a, b, c, d, e, f) { this.path += `C${this.at(a, b)} ${this.at(c, d)} ${this.at(e, f)}`; }
  rect(x, y, w, h) { this.path += `M${this.at(x, y)}h${+w.toFixed(2)}v${+h.toFixed(2)}h${+(-w).toFixed(2)}z`; }
  roundRect(x, y, w, h) { this.rect(x, y, w, h); }
  arc(x, y, r) { this.path += `M${this.at(x - r, y)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`; }
  clip() {
    const id = 'c' + this.clips++;
    this.parts.push(`<clipPath id="${id}"><path d="${this.path}"/></clipPath><g clip-path="url(#${id})">`);
    ++this.depth[this.depth.length - 1];
  }
  paint(style, kind) {
    const colour = String(style), alpha = /^#[\da-f]{8}$/i.test(colour) ? parseInt(colour.slice(7), 16) / 255 : 1, opacity = alpha * this.globalAlpha;
    return `${kind}="${xml(alpha < 1 ? colour.slice(0, 7) : colour)}"${opacity < 1 ? ` ${kind}-opacity="${+opacity.toFixed(3)}"` : ''}`;
  }
  line() { return `${this.paint(this.strokeStyle, 'stroke')} stroke-width="${this.lineWidth}"${this.dash.length ? ` stroke-dasharray="${this.dash}"` : ''} fill="none"`; }
  fill() { if (this.path) this.parts.push(`<path d="${this.path}" ${this.paint(this.fillStyle, 'fill')}/>`); }
  stroke() { if (this.path) this.parts.push(`<path d="${this.path}" ${this.line()}/>`); }
  box(x, y, w, h) { const [a, b] = this.at(x, y).split(' '); return `<rect x="${a}" y="${b}" width="${+Math.max(0, w).toFixed(2)}" height="${+Math.max(0, h).toFixed(2)}"`; }
  fillRect(x, y, w, h) { this.parts.push(`${this.box(x, y, w, h)} ${this.paint(this.fillStyle, 'fill')}/>`); }
  strokeRect(x, y, w, h) { this.parts.push(`${this.box(x, y, w, h)} ${this.line()}/>`); }
  setLineDash(dash) { this.dash = dash; }
  measureText(text) { this.measure.font = this.font; return this.measure.measureText(text); }
  fillText(text, x, y) {
    const [, weight, size] = /^(?:(\d+) )?([\d.]+)px/.exec(this.font) || [null, null, 12], [a, b] = this.at(x, y).split(' ');
    this.parts.push(`<text x="${a}" y="${b}" font-size="${size}"${weight ? ` font-weight="${weight}"` : ''} dominant-baseline="central" ${this.paint(this.fillStyle, 'fill')}>${xml(text)}</text>`);
  }
  text() {
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${this.width}" height="${this.height}" viewBox="0 0 ${this.width} ${this.height}" ` +
      `font-family="sans-serif">\n${this.parts.join('\n')}\n</svg>\n`;
  }
}

// The timeline's present window with the legends below it; all rows, not only the visible ones.
function timelineSvg(view, title) {
  const { context, height, scroll } = view, tall = view.tall + axisHeight, svg = new SvgContext(view.canvas, view.width, tall);
  Object.assign(view, { context: svg, height: tall, whole: true });
  try { view.drawRows(); } finally { Object.assign(view, { context, height, scroll, whole: false }); }
  const used = new Set(view.run.lanes.flatMap((lane) => [...new Set(lane.colour)]));
  const colours = view.scheme.names.flatMap((text, k) => (text && used.has(k) ? [{ text, draw: (c) => { c.fillStyle = view.scheme.colours[k]; c.fillRect(13, 0, 11, 11); } }] : []));
  const write = (text, x, y, colour) => {
    svg.font = '12px sans-serif';
    svg.textAlign = 'left';
    svg.fillStyle = colour;
    svg.fillText(text, x, y);
  };
  let x = view.left, y = tall + 8;
  const from = svg.parts.length;
  for (const { text, draw } of [...colours, ...timelineMarks(view)]) {
    svg.font = '12px sans-serif';
    const wide = 46 + svg.measureText(text).width;
    if (x > view.left && x + wide > view.width) { x = view.left; y += 20; }
    svg.save();
    svg.translate(x, y);
    draw(svg);
    svg.restore();
    write(text, x + 30, y + 6, view.theme.soft);
    x += wide;
  }
  svg.height = y + 24;
  svg.parts.splice(from, 0, `<rect x="0" y="${tall}" width="${view.width}" height="${svg.height - tall}" fill="${view.theme.card}"/>`);
  write(title, 16, tall + 14, view.theme.ink);
  return svg.text();
}
