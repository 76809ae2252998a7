// The cards at the top of the page.

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

// A sentence that compares two runs: "auto is 1.31 times as fast as heft."
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
  const busy = devices.map((d) => d.busy_ns / Math.max(1, step));
  const busiest = busy.indexOf(Math.max(...busy));
  cards.push(card('Devices busy', formatPercent(source.busy), source.busy, devices.length > 1 ? `most: ${devices[busiest].name}, ${formatPercent(busy[busiest])}` : devices[0].name));
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
  byId('bound').textContent = source.footnote && `${source.label}: ${source.footnote}`;
  byId('cards').replaceChildren(...cards);
}
