// The page: combines the other parts.

class Page {
  constructor() {
    this.view = new View(byId('canvas'));
    this.controls = new Controls(this.view, this);
    this.view.onDraw = () => { this.controls.drawOverview(); showMarks(this.view); this.state.changed(); };
    this.by = 'phase';
    this.below = null;
    this.alone = -1;
    this.picked = '';
    this.drawn = data.runs.map((run, index) => index).filter((index) => data.runs[index].drawing);
    const select = byId('run'), below = byId('below');
    below.append(element('option', { value: '' }, 'none'));
    for (const index of this.drawn) for (const list of [select, below]) list.append(element('option', { value: index }, data.runs[index].label));
    select.addEventListener('change', () => this.show(Number(select.value), this.belowChosen()));
    below.addEventListener('change', () => this.show(this.index, below.value === '' ? null : Number(below.value)));
    byId('below-box').hidden = this.drawn.length < 2;
    byId('swap').hidden = this.drawn.length < 2;
    byId('swap').addEventListener('click', () => { if (this.below !== null) this.show(this.below, this.index); });
    byId('save').addEventListener('click', () => save(`timeline ${this.view.run.source.label}`, timelineSvg(this.view, data.title)));
    byId('save-table').addEventListener('click', () => save(`comparison ${data.title}`, tableSvg(byId('comparison').querySelector('table'))));
    for (const radio of document.getElementsByName('colour')) {
      radio.addEventListener('change', () => { this.by = radio.value; this.alone = -1; this.recolour(); });
    }
    byId('critical').addEventListener('change', () => this.refreshShown());
    byId('idle').addEventListener('change', () => this.layOut());
    const table = document.querySelector('#comparison table');
    makeSortable(table, data.runs[0].value);
    for (const row of table.tBodies[0].rows) {
      if (!row.classList.contains('drawn')) continue;
      const index = Number(row.dataset.run);
      row.addEventListener('click', () => this.show(index, this.belowChosen()));
      if (this.drawn.length < 2) continue;
      const beside = element('button', { type: 'button', class: 'below', 'aria-pressed': 'false', title: `Draw ${data.runs[index].label} below the chosen run` }, '⬓');
      beside.addEventListener('click', (e) => { e.stopPropagation(); this.show(this.index, this.below === index ? null : index); });
      row.querySelector('.pick-run').after(beside);
    }
    moveByArrows(table);
    this.state = new State(this);
    addEventListener('resize', () => { this.view.resize(); this.charts.show(150); });
    followTheme(() => this.restyle(), (on) => { this.view.printing = on; });
    byId('timeline').hidden = !this.drawn.length;
    if (this.drawn.length) this.show(this.drawn.includes(data.open) ? data.open : this.drawn[0]);
    this.charts = new Charts(this);
    if (this.drawn.length && /[#&]run=/.test(location.hash)) this.state.apply();
  }

  // The lower run that the reader chose; undefined if it is the default.
  belowChosen() { return this.below === data.runs[this.index].beneath ? undefined : this.below; }

  restyle() {
    this.controls.overviewKey = '';
    this.view.resize();
  }

  colourKey() { return `${this.index} ${this.below} ${this.by} ${document.documentElement.dataset.theme}`; }

  // `below`: the lower run, null for none; by default the run that belongs there.
  show(index, below = data.runs[index].beneath) {
    this.index = index;
    this.below = this.drawn.includes(below) && below !== index ? below : null;
    const run = withBeneath(decodeRun(index), this.below);
    byId('run').value = index;
    byId('below').value = this.below ?? '';
    byId('swap').disabled = this.below === null;
    for (const row of document.querySelectorAll('#comparison tbody tr')) {
      const chosen = Number(row.dataset.run) === index;
      row.classList.toggle('chosen', chosen);
      row.classList.toggle('beside', Number(row.dataset.run) === this.below);
      row.querySelector('.pick-run')?.setAttribute('aria-pressed', chosen);
      row.querySelector('.below')?.setAttribute('aria-pressed', Number(row.dataset.run) === this.below);
    }
    showCards(run.source, run.beneath);
    byId('idle-box').hidden = !run.lanes.some((l) => l.kind !== 'device' && !l.item.length && !l.instants.item.length);
    byId('canvas').setAttribute('aria-label', `Timeline of ${run.source.label}: ${formatCount(run.graph.ops.length)} ops on ` +
      `${formatCount(run.source.devices.reduce((sum, d) => sum + d.images, 0))} devices, ${formatTime(run.source.makespan_ns)}`);
    this.view.run = run;
    this.alone = -1;
    this.layOut(true);
    this.choose(null);
    this.selectArea(null);
    if (this.charts) this.charts.show();
  }

  // Shows sums over a range of time, in some rows or in all.
  selectArea(range) {
    this.view.range = range;
    showArea(this.view, range);
    this.view.redraw();
  }

  layOut(whole = false) {
    this.view.setRun(this.view.run, byId('idle').checked);
    if (whole) [this.view.from, this.view.to] = [0, this.view.end];
    this.recolour();
  }

  recolour() {
    this.view.setColours(colouring(this.view.run, this.by));
    this.showLegend();
    this.controls.search(byId('search').value);
    this.view.resize();
  }

  // Highlights spans that meet all active conditions, of four.
  refreshShown() {
    const critical = byId('critical').checked, searching = byId('search').value.trim() !== '', alone = this.alone;
    const found = new Set(searching ? this.controls.matches.map(String) : []);
    this.view.showPath = critical;
    const index = new Map(this.view.run.lanes.map((lane, l) => [lane, l])), picked = this.picked && boxLayers(this.view.run, this.picked);
    const inPicked = (lane, j) => { const { graph } = lane.run; return picked.has(graph.layers[graph.layer[opOf(lane, lane.item[j])]]); };
    this.view.setShown(!critical && !searching && alone < 0 && !picked ? null : (lane, j) =>
      (!picked || inPicked(lane, j)) && (!critical || lane.critical[j]) && (!searching || found.has(`${index.get(lane)},${j}`)) && (alone < 0 || lane.colour[j] === alone));
    this.view.redraw();
  }

  isolate(colour) {
    this.alone = this.alone === colour ? -1 : colour;
    [...byId('legend').querySelectorAll('[data-colour]')].forEach((b) => b.setAttribute('aria-pressed', Number(b.dataset.colour) === this.alone));
    this.refreshShown();
  }

  // Shows only the layers of a box of the network, by its name; all if it was chosen already, or without a name.
  pickLayers(name) {
    this.picked = this.picked === name ? '' : name;
    this.charts?.network.mark(this.picked);
    this.showLegend();
    this.refreshShown();
  }

  showLegend() {
    const { scheme, run } = this.view, legend = byId('legend'), used = new Set();
    for (const lane of run.lanes) for (const colour of lane.colour) used.add(colour);
    legend.replaceChildren();
    if (scheme.ramp) {
      const ramp = element('span', { class: 'ramp' });
      ramp.style.background = `linear-gradient(90deg, ${scheme.colours.join(', ')})`;
      const names = scheme.ramp.filter(Boolean);
      legend.append(element('span', { class: 'note' }, names[0] || 'no layers', ramp, names.length > 1 ? names[names.length - 1] : '',
        `· ${formatCount(names.length)} layers in the order of the graph`));
    }
    scheme.names.forEach((name, colour) => {
      if (!name || !used.has(colour)) return;
      const swatch = element('i');
      swatch.style.background = scheme.colours[colour];
      const button = element('button', { type: 'button', 'aria-pressed': 'false', 'data-colour': colour }, swatch, name);
      button.addEventListener('click', () => this.isolate(colour));
      legend.append(button);
    });
    if (!this.picked) return;
    const picked = element('button', { type: 'button', id: 'picked', 'aria-pressed': 'true', title: 'Show all layers' }, `layer ${this.picked} ✕`);
    picked.addEventListener('click', () => this.pickLayers(''));
    legend.append(picked);
  }

  facts([index, j]) {
    const lane = this.view.run.lanes[index], { run } = lane, item = lane.item[j], op = opOf(lane, item), { graph } = run;
    const facts = [['start', formatMoment(lane.start[j])], ['duration', formatTime(lane.end[j] - lane.start[j])]];
    const device = (d) => run.source.devices[d].name;
    if (lane.kind === 'device') {
      facts.unshift(['on', lane.name]);
      if (graph.types[graph.type[op]]) facts.push(['type', graph.types[graph.type[op]]]);
      if (graph.layers[graph.layer[op]]) facts.push(['layer', graph.layers[graph.layer[op]]]);
      facts.push(['phase', data.phases[graph.phase[op]]], ['writes', formatBytes(graph.output_bytes[op])],
        ['waits for', formatOps(graph.producers(op).length)], ['waited for by', formatOps(graph.readers(op).length)]);
    } else {
      const t = run.transfers;
      facts.unshift(['transfer', `${device(t.from[item])} → ${receivers(run, item).map(device).join(', ')}`]);
      facts.push(['bytes', formatBytes(graph.tensor_bytes[t.tensor[item]])], ['made by', graph.ops[op]]);
      if (t.waited[item] > 0) facts.push(['waited', formatTime(t.waited[item])]);
    }
    if (lane.critical[j]) facts.push(['', 'on the critical path']);
    return { name: nameOf(lane, item), facts };
  }

  choose(mark) {
    this.view.chosen = mark;
    const status = byId('status');
    status.replaceChildren();
    if (mark) {
      const { name, facts } = this.facts(mark);
      status.append(element('b', {}, name), ' ', element('span', { class: 'soft' }, facts.map(([k, v]) => `${k} ${v}`.trim()).join(' · ')));
    }
    this.view.redraw();
  }

  showTip(found, x, y) {
    const tip = byId('tip'), list = element('dl');
    let name, facts;
    if (found.j === undefined && found.row.lane) ({ name, facts } = idleFacts(found.row.lane, found.time));
    else if (found.j === undefined) {
      const { curve, device } = found.row, run = found.row.source, at = Math.max(0, upperBound(curve.at, found.time) - 1);
      const capacity = run.devices[device].capacity_bytes;
      name = `Memory of ${run.devices[device].name}`;
      facts = [['at', formatMoment(Math.max(0, found.time))], ['held', formatBytes(curve.held[at])],
        ...(capacity === null ? [] : [['capacity', formatBytes(capacity)]]), ['peak', formatBytes(run.devices[device].peak_bytes)]];
    } else ({ name, facts } = this.facts([found.row.index, found.j]));
    for (const [term, value] of facts) list.append(element('dt', {}, term), element('dd', {}, value));
    tip.replaceChildren(element('b', {}, name), list);
    tip.hidden = false;
    tip.style.left = Math.max(4, Math.min(innerWidth - tip.offsetWidth - 8, x + 16)) + 'px';
    tip.style.top = (y + tip.offsetHeight + 24 > innerHeight ? y - tip.offsetHeight - 12 : y + 16) + 'px';
  }

  hideTip() { byId('tip').hidden = true; }
}

addEventListener('error', (e) => { document.documentElement.dataset.scriptError = e.message; });
const began = performance.now();
const page = new Page();
document.documentElement.dataset.firstDraw = (performance.now() - began).toFixed(1);
