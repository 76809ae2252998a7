// The mesh of a plan: each device's stage, share of the batch, part of the sequence, and tensor rank.

const mostInRow = 64;

// Position of device `at` of a stage: its replica, the replica's share of the batch, its part of the sequence or of the
// experts, and the tensor rank.
function placeInMesh(plan, ranks, at) {
  const replica = Math.floor(at / ranks);
  return { replica, share: Math.floor(replica / plan.context), part: replica % plan.context, expert: replica % plan.experts, rank: at % ranks };
}

function meshText(plan, ranks, { replica, share, part, expert, rank }) {
  const parts = [plan.row ? `replica ${replica + 1}` : `share ${share + 1} of ${plan.data} of the batch`];
  if (plan.context > 1) parts.push(`part ${part + 1} of ${plan.context} of the sequence`);
  if (plan.experts > 1) parts.push(`part ${expert + 1} of ${plan.experts} of the experts`);
  if (ranks > 1) parts.push(`tensor rank ${rank + 1} of ${ranks}`);
  return parts.join(', ');
}

function stageText(plan, stages) {
  const blocks = (s) => {
    const first = s > 0 ? plan.cuts[s - 1] : 0, end = plan.cuts[s];
    const range = end === undefined ? `from block ${first + 1} on` : end === first + 1 ? `block ${end}` : `blocks ${first + 1} to ${end}`;
    return plan.recompute[s] ? `${range}, recomputing ${plan.recompute[s]}` : range;
  };
  return plan.cuts.length ? `stage ${stages.map((s) => s + 1).join(', ')}: ${stages.map(blocks).join('; ')}` : plan.recompute[0] ? `recomputing ${plan.recompute[0]}` : 'all layers';
}

function showMesh(source) {
  const { plan } = source;
  byId('mesh').hidden = !plan;
  if (!plan) return;
  const width = chartRoom(), cell = 18, left = 4, shares = plan.row ? Math.max(...plan.stages.map((_, i) => plan.row[i][0])) : plan.data;
  const chart = svgNode('svg', { class: 'chart network', role: 'group', 'aria-label': `Devices of the plan, ${source.label}` });
  let y = 4, first = 0, hidden = 0;
  plan.stages.forEach((stages, i) => {
    const [replicas, ranks] = plan.row ? plan.row[i] : [plan.data * plan.context, plan.tensor], count = replicas * ranks;
    chart.append(svgNode('text', { x: left, y: y + 11 }, `${stageText(plan, stages)}${plan.row ? ` · ${replicas} × ${ranks}` : ''}`));
    y += 18;
    let x = left;
    for (let at = 0; at < Math.min(count, mostInRow); ++at) {
      const place = placeInMesh(plan, ranks, at), group = Math.max(plan.context, plan.experts);
      if (at > 0 && place.rank === 0) x += place.replica % group === 0 ? 9 : 3;
      if (x + cell > width) { x = left; y += cell + 3; }
      const colour = deviceColour(plan.row ? place.replica : place.share, shares), name = plan.names[first + at];
      chart.append(svgNode('rect', { x, y, width: cell - 1, height: cell - 1, rx: 3, fill: colour }, svgNode('title', {}, `${name ? name + ': ' : ''}${meshText(plan, ranks, place)}`)));
      if (ranks > 1) chart.append(svgNode('text', { x: x + (cell - 1) / 2, y: y + 12.5, 'text-anchor': 'middle', 'pointer-events': 'none', style: `fill: ${inkOn(colour)}` }, String(place.rank + 1)));
      x += cell;
    }
    hidden += Math.max(0, count - mostInRow);
    if (count > mostInRow) chart.append(svgNode('text', { class: 'soft', x: Math.min(x + 6, width - 80), y: y + 13 }, `… ${formatCount(count - mostInRow)} more`));
    first += count;
    y += cell + 10;
  });
  const legend = [{ text: `a colour for each ${plan.row ? 'replica of a stage' : plan.context > 1 ? 'share of the batch; its parts of the sequence side by side' : 'share of the batch'}` }];
  if (plan.experts > 1) legend.push({ text: 'close together: replicas that divide experts' });
  if (plan.tensor > 1 || plan.row) legend.push({ text: 'numbers: tensor ranks' });
  const end = chartLegend(chart, left + 12, y, width, legend);
  chart.setAttribute('viewBox', `0 0 ${width} ${end}`);
  putChart('mesh', `Devices of the plan, ${source.label}`, element('p', { class: 'soft' }, plan.text), chart);
}
