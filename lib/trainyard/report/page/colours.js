// Colours: Paul Tol's schemes, which colour-blind readers can distinguish.

const transferNames = ['activation transfer', 'gradient transfer', 'update transfer'];
const palettes = {
  phase: ['#4477aa', '#ee6677', '#ccbb44', '#66ccee', '#aa3377', '#999999'],
  type: ['#44aa99', '#cc6677', '#ddcc77', '#88ccee', '#117733', '#aa4499', '#999933', '#882255', '#6655bb', '#a0a8b2', '#ee7733'],
  device: ['#4477aa', '#ee6677', '#228833', '#ccbb44', '#66ccee', '#aa3377', '#bbbbbb', '#ee7733', '#009988', '#332288', '#cc3311', '#88ccaa'],
  layer: ['#ddecbf', '#c2e3d2', '#a8d8dc', '#8dcbe4', '#7bbce7', '#7eb2e4', '#88a5dd', '#9398d2', '#9b8ac4', '#9d7db2', '#9a709e',
    '#906388', '#805770', '#684957'],
};

// The colour of device `index` of `count`: one from the palette, or from a ramp if there are more devices than colours.
function deviceColour(index, count) {
  if (count <= palettes.device.length) return palettes.device[index];
  const ramp = palettes.layer, at = index / (count - 1) * (ramp.length - 1), low = Math.min(ramp.length - 2, Math.floor(at));
  const channel = (i) => Math.round(parseInt(ramp[low].slice(i, i + 2), 16) * (low + 1 - at) + parseInt(ramp[low + 1].slice(i, i + 2), 16) * (at - low));
  return '#' + [1, 3, 5].map((i) => channel(i).toString(16).padStart(2, '0')).join('');
}

// Black or white, whichever has the higher contrast with the colour (relative luminance of WCAG).
function inkOn(colour) {
  const channel = (i) => {
    const c = parseInt(colour.slice(i, i + 2), 16) / 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5) > 0.32 ? '#10151c' : '#ffffff';
}

// Blue, green and red in one number, the format of an image's pixels.
const packed = (colour) => parseInt(colour.slice(5, 7) + colour.slice(3, 5) + colour.slice(1, 3), 16);

// Forward types whose gradients are named differently.
const forwardNames = { BatchNorm: 'BatchNormalization', Embedding: 'Gather' };

function forwardType(type) {
  const forward = type.replace(/Grad[ABCWX]$/, 'Grad').replace(/[._]?(grad|gradient|backward|bwd)$/i, '') || type;
  return forward !== type && forwardNames[forward] || forward;
}

// Names and colours of one way of colouring, and the colour of each op, and of each transfer by its producer.
function colouring(run, by) {
  if (by === 'phase') {
    return {
      names: [...data.phases, ...transferNames], colours: palettes.phase,
      op: (op, graph) => graph.phase[op], transfer: (op, graph) => 3 + graph.phase[op],
    };
  }
  if (by === 'layer') {
    // Layers of the lower run have the same colours as in the upper run.
    const colours = palettes.layer, layers = run.graph.layers, many = Math.max(1, layers.length);
    const above = new Map(layers.map((layer, i) => [layer, i]));
    const bin = (op, graph) => {
      const at = above.get(graph.layers[graph.layer[op]]) ?? Math.min(many - 1, graph.layer[op]);
      return Math.min(colours.length - 1, Math.floor(at * colours.length / many));
    };
    return { ramp: layers, colours, names: [], op: bin, transfer: bin };
  }
  // Gradients have the colour of their forward type. The types that take the most time have colours of their own.
  const base = new Map();
  for (const type of [...run.graph.types, ...(run.other ? run.other.graph.types : [])]) base.set(type, forwardType(type));
  const time = new Map();
  for (const lane of run.lanes) {
    if (lane.kind !== 'device') continue;
    lane.item.forEach((op, j) => {
      const { graph } = lane.run, type = base.get(graph.types[graph.type[op]]);
      time.set(type, (time.get(type) || 0) + lane.end[j] - lane.start[j]);
    });
  }
  const ranked = [...time].sort(([a, t], [b, u]) => u - t || (a < b ? -1 : 1)).map(([type]) => type);
  const rest = palettes.type.length - 2, own = Math.min(rest, ranked.length);
  const index = new Map([...base].map(([type, forward]) => {
    const at = ranked.indexOf(forward);
    return [type, at >= 0 && at < own ? at : rest];
  }));
  const names = palettes.type.map((_, i) => (i < own ? ranked[i] || 'no type' : ''));
  if (ranked.length > own) names[rest] = ranked.length === own + 1 ? ranked[own] || 'no type' : `${ranked.length - own} other types`;
  names[rest + 1] = 'transfer';
  return { names, colours: palettes.type, op: (op, graph) => index.get(graph.types[graph.type[op]]), transfer: () => rest + 1 };
}
