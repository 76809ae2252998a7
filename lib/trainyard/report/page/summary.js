// The cards above, and the sorting of the comparison.

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === 'class') made.className = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

function card(what, number, share, more, bad = false) {
  const made = element('div', { class: bad ? 'card bad' : 'card' }, element('div', { class: 'what' }, what));
  const [value, unit] = number.split(thin);
  made.append(element('div', { class: 'number' }, value, unit ? element('small', {}, ' ' + unit) : ''));
  if (share !== null) {
    const meter = element('div', { class: 'meter' }), filled = element('i');
    filled.style.width = Math.min(100, 100 * share) + '%';
    meter.append(filled);
    made.append(meter);
  }
  made.append(element('div', { class: 'more' }, more));
  return made;
}

// "auto is 1.31 times as fast as heft."
function ratioSentence(source, other) {
  const [fast, slow] = source.value_ns <= other.value_ns ? [source, other] : [other, source];
  if (fast.value_ns === slow.value_ns) return `${fast.label} and ${slow.label} take the same time.`;
  const ratio = slow.value_ns / Math.max(1, fast.value_ns);
  return `${fast.label} is ${ratio.toFixed(ratio < 1.1 ? 4 : 2)} times as fast as ${slow.label}.`;
}

function showCards(source, beneath) {
  const devices = source.devices, step = source.makespan_ns, cards = [];
  const bound = source.lower_bound_ns;
  cards.push(card(source.value, formatTime(source.value_ns), bound > 0 ? bound / source.value_ns : null,
    bound === 0 ? '' : source.gap === 'optimal' ? 'optimal' : `gap ${source.gap}`));
  if (source.validation) {
    const { verdict, total_error: error, total_tolerance: allowed } = source.validation;
    cards.push(card('Error of the prediction', signedPercent(error), allowed ? Math.abs(error) / allowed : null, `${verdict}; ${formatPercent(allowed)} allowed`, verdict === 'fail'));
  }
  const busy = devices.map((d) => d.busy_ns / Math.max(1, step)), mean = busy.reduce((a, b) => a + b, 0) / devices.length;
  const busiest = busy.indexOf(Math.max(...busy));
  cards.push(card('Devices busy', formatPercent(mean), mean, devices.length > 1 ? `most: ${devices[busiest].name}, ${formatPercent(busy[busiest])}` : devices[0].name));
  const exposed = devices.map((d) => d.exposed_ns), worst = exposed.indexOf(Math.max(...exposed));
  cards.push(card('Exposed communication', formatTime(exposed[worst]), exposed[worst] / Math.max(1, step),
    exposed[worst] > 0 ? `most of any device: ${devices[worst].name}` : 'no device waits on a transfer'));
  const fill = (d) => (d.capacity_bytes ? d.peak_bytes / d.capacity_bytes : 0);
  const fullest = devices.reduce((best, d) => (fill(d) > fill(best) || (fill(d) === fill(best) && d.peak_bytes > best.peak_bytes) ? d : best));
  const over = devices.filter((d) => d.capacity_bytes !== null && d.peak_bytes > d.capacity_bytes).length;
  cards.push(card('Peak memory', formatBytes(fullest.peak_bytes), fullest.capacity_bytes ? fill(fullest) : null,
    (over ? `does not fit: ${over} of ${devices.length} devices over; ` : '') +
      (fullest.capacity_bytes ? `${fullest.name}, of ${formatBytes(fullest.capacity_bytes)}` : `${fullest.name}, no limit given`), over > 0));
  cards.push(card('Bytes moved', formatBytes(source.moved_bytes), null,
    `${formatCount(source.transfers)} transfer${source.transfers === 1 ? '' : 's'}`));
  byId('chosen').textContent = source.label;
  byId('against').textContent = beneath && beneath.value === source.value ? ratioSentence(source, beneath) : '';
  byId('bound').textContent = source.bound && `${source.label}: ${source.bound}`;
  byId('cards').replaceChildren(...cards);
}

function makeSortable(table) {
  const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
  const value = (row, column) => {
    const text = row.cells[column].dataset.value, number = Number(text);
    return text === '' || Number.isNaN(number) ? text : number;
  };
  // Which column the rows come sorted by: best first, unless some are of other models or do not fit.
  const time = heads.findIndex((head) => head.textContent === data.runs[0].value), order = [...body.rows].map((row) => value(row, time));
  if (order.every((at, i) => i === 0 || order[i - 1] <= at)) heads[time]?.setAttribute('aria-sort', 'ascending');
  heads.forEach((head, column) => {
    head.querySelector('button')?.addEventListener('click', () => {
      const descending = head.getAttribute('aria-sort') === 'ascending';
      heads.forEach((h) => h.removeAttribute('aria-sort'));
      head.setAttribute('aria-sort', descending ? 'descending' : 'ascending');
      const rows = [...body.rows].map((row) => [value(row, column), row]);
      rows.sort(([a], [b]) => {  // what is unknown goes last either way
        if (a === '' || b === '') return (a === '') - (b === '');
        const order = typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b));
        return descending ? -order : order;
      });
      body.append(...rows.map(([, row]) => row));
    });
  });
}

// One tab stop for the whole table: arrows go from row to row and along the heads.
function moveByArrows(table) {
  const stops = () => [...table.rows].map((row) => [...row.querySelectorAll('button')]).filter((row) => row.length);
  for (const button of stops().flat()) button.tabIndex = -1;
  const first = table.tBodies[0].querySelector('.pick-run') || stops().flat()[0];
  if (first) first.tabIndex = 0;
  const enter = (button) => {
    for (const other of stops().flat()) other.tabIndex = -1;
    button.tabIndex = 0;
    button.focus();
  };
  table.addEventListener('keydown', (e) => {
    const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[e.key] || [0, 0];
    if (!down && !right) return;
    const rows = stops(), row = rows.findIndex((buttons) => buttons.includes(e.target)), column = rows[row]?.indexOf(e.target);
    const next = rows[row + down], button = next?.[Math.min(next.length - 1, (down ? (row === 0 || row + down === 0 ? 0 : column) : column) + right)];
    if (!button) return;
    e.preventDefault();
    e.stopPropagation();
    enter(button);
  });
}
