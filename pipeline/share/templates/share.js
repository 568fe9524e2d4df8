// The controls: which runs and splits are shown, and how.

const data = JSON.parse(document.getElementById('data').textContent);
const runs = data.runs.map((run, number) => ({...run, number}));
const state = {runs: new Set(runs.map((run) => run.number)), splits: new Set(), smoothing: 0, log: false, axis: 'step'};
const listeners = [];
const changed = () => { for (const listener of listeners) listener(); };
const place = (id) => document.getElementById(id);
const FIRST = 24;

function toggle(words, on, change, mark) {
  const button = html('button', {type: 'button', class: 'chip', 'aria-pressed': String(on)}, ...(mark ? [mark] : []), words);
  button.addEventListener('click', () => {
    const now = button.getAttribute('aria-pressed') !== 'true';
    button.setAttribute('aria-pressed', String(now));
    change(now);
  });
  return button;
}

// A drop-down list; `options` are [value, words].
function choice(label, options, change) {
  const select = html('select', {'aria-label': label}, ...options.map(([value, words]) => html('option', {value}, words)));
  select.addEventListener('change', () => change(select.value));
  return html('label', {class: 'choice'}, html('span', {}, label), select);
}

const group = (label, ...children) => html('div', {class: 'group', role: 'group', 'aria-label': label}, ...children);

// The train log comes first and is dashed; the others are solid lines.
const splits = [...new Set(runs.flatMap((run) => run.scalars.map((one) => one.split)))].sort((a, b) => (b === 'train') - (a === 'train'));
for (const split of splits) state.splits.add(split);
const WORDS = {validation: 'eval'};
const named = (split) => WORDS[split] || split;

function controls() {
  const set = (chosen, value) => (on) => { if (on) chosen.add(value); else chosen.delete(value); changed(); };
  const shown = place('controls');
  const ofRuns = runs.map((run) => toggle(run.label, true, set(state.runs, run.number), html('span', {class: `dot ${run.look}`})));
  if (runs.length > 1) {
    const all = html('button', {type: 'button', class: 'chip plain'}, 'All');
    all.addEventListener('click', () => {
      for (const run of runs) state.runs.add(run.number);
      for (const button of ofRuns) button.setAttribute('aria-pressed', 'true');
      changed();
    });
    shown.append(group('Runs', ...ofRuns, ...(runs.length > 3 ? [all] : [])));
  }
  const lines = splits.map((split) => toggle(named(split), true, set(state.splits, split), html('span', {class: `stroke${split === 'train' && splits.length > 1 ? ' dashed' : ''}`})));
  const slider = html('input', {type: 'range', min: 0, max: 0.99, step: 0.01, value: 0, id: 'smoothing', 'aria-label': 'Smoothing'});
  const value = html('output', {for: 'smoothing'}, '0');
  slider.addEventListener('input', () => { state.smoothing = Number(slider.value); value.textContent = figure(state.smoothing, 2); changed(); });
  shown.append(
    group('View',
      ...lines,
      html('label', {class: 'choice'}, html('span', {}, 'Smoothing'), slider, value),
      toggle('Log scale', false, (on) => { state.log = on; changed(); }),
      choice('Over', [['step', 'epochs or steps'], ['relative', 'time since the start']], (value) => { state.axis = value; changed(); })),
  );
}

const title = (tag) => tag.replace(/^epoch_/, '');

function curves() {
  const tags = [...new Set(runs.flatMap((run) => run.scalars.map((one) => one.tag)))];
  tags.sort((a, b) => /loss$/.test(b) - /loss$/.test(a));
  for (const tag of tags) {
    const plot = new Plot(title(tag));
    const epochs = tag.startsWith('epoch_');
    place('plots').append(plot.element);
    const update = () => {
      const series = [];
      for (const run of runs) {
        for (const one of run.scalars) {
          if (one.tag !== tag || !state.runs.has(run.number) || !state.splits.has(one.split)) continue;
          const x = (at) => (state.axis === 'step' ? one.steps[at] + (epochs ? 1 : 0) : one.elapsed[at]);
          const raw = one.values.map((value, at) => [x(at), value]);
          const soft = state.smoothing > 0;
          series.push({name: runs.length > 1 ? `${run.label} ${named(one.split)}` : named(one.split), look: run.look, dashed: one.split === 'train' && splits.length > 1, raw, smoothed: soft, points: soft ? smoothed(raw, state.smoothing) : raw});
        }
      }
      plot.show(series, {log: state.log, axis: state.axis, xLabel: state.axis === 'relative' ? (runs.every((run) => run.timed) ? 'since the training began' : 'since the training began, or its first value') : epochs ? 'epoch' : 'step'});
    };
    listeners.push(update);
    update();
  }
}

const LOWER = /loss|entropy|error|mae|mse|rmse|perplexity|brier|^false_/;
const NO_BEST = new Set(['calibration', 'predicted_positive_rate']);
// The metric without the name of its task, as in sold/auc, and without its level, as in precision@0.3.
const ownName = (metric) => metric.replace(/^.*\//, '').replace(/@.*$/, '');

function slices() {
  const judged = runs.filter((run) => run.evaluation && run.evaluation.slices.length);
  if (judged.length < 2) return;
  place('slices').hidden = false;
  for (const link of document.querySelectorAll('.if-slices')) link.hidden = false;
  const metrics = [...new Set(judged.flatMap((run) => Object.keys(run.evaluation.metrics)))];
  const kinds = [...new Set(judged.flatMap((run) => run.evaluation.slices.map((one) => one.by)))];
  const chosen = {metric: metrics[0], by: kinds[0]};
  const measured = (one) => ({value: one.metrics[chosen.metric], ends: one.intervals[chosen.metric]});
  const update = () => {
    const seen = judged.filter((run) => state.runs.has(run.number));
    const rows = new Map();
    for (const run of seen) {
      for (const one of run.evaluation.slices) {
        if (one.by !== chosen.by) continue;
        if (!rows.has(one.value)) rows.set(one.value, {label: one.label, examples: one.examples, values: new Map()});
        rows.get(one.value).values.set(run.number, measured(one));
      }
    }
    const own = ownName(chosen.metric);
    const lower = LOWER.test(own);
    const shown = (value) => value === null || value === undefined ? '–' : Math.abs(value) < 1000 ? value.toFixed(4) : figure(value);
    const known = (values) => [...values].filter((value) => value !== null && value !== undefined);
    const worst = (row) => { const found = known([...row.values.values()].map((one) => one.value)); return found.length ? (lower ? -Math.max(...found) : Math.min(...found)) : Infinity; };
    const line = (words, examples, cells, strong) => {
      const found = known(cells.map((one) => one?.value));
      const best = !NO_BEST.has(own) && new Set(found.map(shown)).size > 1 ? (lower ? Math.min(...found) : Math.max(...found)) : null;
      // Of runs whose intervals contain the best value, none is marked: which is best may be chance.
      const certain = best !== null && !cells.some((one) => one?.ends && shown(one.value) !== shown(best) && one.ends[0] <= best && best <= one.ends[1]);
      const named = words.length > 60 ? html('span', {class: 'long', tabindex: 0, title: words}, words) : words;
      return html('tr', {class: strong ? 'whole' : null}, html('th', {scope: 'row'}, named), html('td', {class: 'n'}, examples === null ? '' : examples.toLocaleString('en')),
        ...cells.map((one) => html('td', {class: certain && shown(one?.value) === shown(best) ? 'n better strong' : 'n'}, shown(one?.value),
          one?.ends ? html('small', {class: 'ends-of soft'}, `${shown(one.ends[0])} to ${shown(one.ends[1])}`) : '')));
    };
    const ordered = [...rows].sort((a, b) => worst(a[1]) - worst(b[1]));
    place('slice-table').replaceChildren(
      html('thead', {}, html('tr', {}, html('th', {scope: 'col'}, chosen.by), html('th', {scope: 'col', class: 'n'}, 'Examples'),
        ...seen.map((run) => html('th', {scope: 'col', class: 'n'}, html('span', {class: `dot ${run.look}`}), run.label)))),
      html('tbody', {}, line('all', seen.length ? seen[0].evaluation.examples : null, seen.map((run) => measured(run.evaluation)), true),
        ...ordered.map(([, row]) => line(row.label, row.examples, seen.map((run) => row.values.get(run.number)), false))));
  };
  // Runs of different pipelines have different metrics and columns, so not every metric exists for every column.
  const by = choice('By', kinds.map((name) => [name, name]), (value) => { chosen.by = value; update(); });
  const fit = () => {
    const has = (kind) => judged.some((run) => run.evaluation.slices.some((one) => one.by === kind && typeof one.metrics[chosen.metric] === 'number'));
    const select = by.querySelector('select');
    for (const option of select.options) option.hidden = option.disabled = !has(option.value);
    if (!has(chosen.by)) chosen.by = select.value = kinds.find(has) ?? chosen.by;
  };
  place('slice-controls').append(group('Slices',
    choice('Metric', metrics.map((name) => [name, name]), (value) => { chosen.metric = value; fit(); update(); }), by));
  fit();
  listeners.push(update);
  update();
}

function histograms() {
  const with_weights = runs.filter((run) => run.histograms.length);
  if (!with_weights.length) return;
  place('histograms').hidden = false;
  for (const link of document.querySelectorAll('.if-histograms')) link.hidden = false;
  let all = false;
  let number = with_weights[0].number;
  const more = html('button', {type: 'button', class: 'chip plain'});
  const update = () => {
    const run = runs[number];
    const found = all ? run.histograms : run.histograms.slice(0, FIRST);
    place('histogram-plots').replaceChildren(...found.map((one) => {
      const ridges = new Ridges(one.tag.replace(/^weights\//, ''), run.look);
      ridges.steps = one.steps.filter((step) => step.counts.length); // drawn once the element has a width
      return ridges.element;
    }));
    more.hidden = all || run.histograms.length <= FIRST;
    more.textContent = `All ${run.histograms.length} weights`;
  };
  more.addEventListener('click', () => { all = true; update(); });
  const pick = choice('Run', with_weights.map((run) => [run.number, run.label]), (value) => { number = Number(value); update(); });
  place('histogram-controls').append(group('Weights', ...(with_weights.length > 1 ? [pick] : []), more));
  place('histogram-controls').hidden = with_weights.length < 2 && with_weights[0].histograms.length <= FIRST;
  update();
}

function parameters() {
  const table = document.querySelector('#parameters table');
  if (runs.length < 2 || !table || !table.querySelector('.differs')) return;
  table.parentElement.before(html('p', {class: 'after-heading'}, toggle('Only what differs', false, (on) => table.classList.toggle('only-differing', on))));
}

// Following a link to a run opens its details.
function unfold() {
  const found = location.hash && place(decodeURIComponent(location.hash.slice(1)));
  if (!found) return;
  for (let at = found; at; at = at.parentElement) if (at.tagName === 'DETAILS') at.open = true;
  found.scrollIntoView();
}

controls();
curves();
slices();
histograms();
parameters();
window.addEventListener('hashchange', unfold);
unfold();
