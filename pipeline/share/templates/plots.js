// Line charts and stacked histograms of the shared page, with pipeline/charts/charts.js.

const {fill, html, svg, figure, extent, scale, axes, path, thinned} = headraceCharts;

function span(seconds) {
  if (seconds < 60) return `${figure(seconds, 3)} s`;
  if (seconds < 3600) return `${figure(seconds / 60, 3)} min`;
  return `${figure(seconds / 3600, 3)} h`;
}

// TensorBoard's exponential moving average, without its bias towards zero.
function smoothed(points, weight) {
  let [sum, seen] = [0, 0];
  return points.map(([x, y]) => {
    if (y === null) return [x, null];
    sum = sum * weight + (1 - weight) * y;
    seen += 1;
    return [x, sum / (1 - weight ** seen)];
  });
}

function nearest(points, x) {
  let [low, high] = [0, points.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (points[middle][0] < x) low = middle; else high = middle;
  }
  return points[high] && Math.abs(points[high][0] - x) < Math.abs(points[low][0] - x) ? points[high] : points[low];
}

// The stroke of a curve: solid, dashed, or a dash with a number of dots once the colors are used up.
function stroke({look, dashed}) {
  const dots = Number((/more(\d)/.exec(look) || [0, 0])[1]);
  return dots ? `${dashed ? 5 : 14}${' 5 1'.repeat(dots)} 5` : dashed ? '5 4' : null;
}

// One chart with its title. series: {name, look: its classes, dashed, raw: [[x, y]], points: [[x, y]]}
class Plot {
  constructor(title) {
    this.title = title;
    this.note = html('span', {class: 'soft'});
    this.picture = svg('svg', {class: 'plot', role: 'img', 'aria-label': title, tabindex: 0});
    this.tip = html('div', {class: 'tip', hidden: true, role: 'status'});
    const wide = html('button', {type: 'button', class: 'wider', 'aria-pressed': 'false', title: 'Wider', 'aria-label': `Wider: ${title}`}, '⤢');
    this.element = html('figure', {class: 'card plotted'}, html('figcaption', {}, html('h3', {}, title), this.note, wide), html('div', {class: 'stage'}, this.picture, this.tip));
    wide.addEventListener('click', () => wide.setAttribute('aria-pressed', String(this.element.classList.toggle('wide-plot'))));
    this.picture.addEventListener('pointermove', (event) => this.pointed(event));
    this.picture.addEventListener('pointerdown', (event) => this.pointed(event));
    this.picture.addEventListener('pointerleave', (event) => { if (event.pointerType !== 'touch') this.leave(); }); // a tapping finger leaves at once
    this.picture.addEventListener('blur', () => this.leave());
    this.picture.addEventListener('keydown', (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  show(series, {log = false, axis = 'step', whole = true, xLabel = ''} = {}) {
    Object.assign(this, {series, log, axis, whole, xLabel});
    this.at = null;
    this.draw();
  }

  draw() {
    const width = Math.round(this.picture.parentElement.clientWidth);
    if (!width || !this.series) return;
    const height = this.element.classList.contains('wide-plot') ? 380 : 230;
    this.box = {left: 54, right: width - 10, top: 10, bottom: height - 36};
    fill(this.picture, {viewBox: `0 0 ${width} ${height}`, width, height}, []);
    this.picture.replaceChildren();
    const fits = ([, y]) => y !== null && (!this.log || y > 0);
    this.drawn = this.series.map((one) => ({...one, points: one.points.filter(fits), raw: one.raw.filter(fits)})).filter((one) => one.points.length);
    const left = this.series.reduce((sum, one) => sum + one.points.length, 0) - this.drawn.reduce((sum, one) => sum + one.points.length, 0);
    this.note.textContent = left ? `${left} not shown: ${this.log ? 'not above 0, or not finite' : 'not finite'}` : '';
    if (!this.drawn.length) {
      this.picture.append(svg('text', {x: width / 2, y: height / 2, class: 'axis middle'}, 'nothing to show'));
      this.leave();
      return;
    }
    this.scales();
    for (const one of this.drawn) {
      if (one.raw !== one.points && one.smoothed) this.line(one, one.raw, 'faint');
      this.line(one, one.points, '');
    }
    this.cursor = svg('g', {class: 'cursor'});
    this.picture.append(this.cursor);
    if (this.at !== null) this.point(this.at);
  }

  scales() {
    const {left, right, top, bottom} = this.box;
    const all = this.drawn.flatMap((one) => [...one.points, ...one.raw]);
    this.x = scale(extent(all.map(([x]) => x)), [left, right]);
    this.y = scale(extent(all.map(([, y]) => y)), [bottom, top], {log: this.log, pad: 0.06});
    const steps = this.axis === 'step';
    const marks = this.x.ticks(Math.max(2, Math.floor((right - left) / 70)), this.whole && steps);
    axes(this.picture, this.box,
      {marks: marks.map((at) => [this.x(at), steps ? figure(at, 6) : span(at)]), label: this.xLabel},
      {marks: this.y.ticks(5).map((at) => [this.y(at), figure(at)]), grid: true});
  }

  line(one, points, kind) {
    const shown = thinned(points);
    this.picture.append(svg('path', {d: path(shown.map(([x, y]) => [this.x(x), this.y(y)])), class: `curve ${one.look} ${kind}`, 'stroke-dasharray': stroke(one)}));
    if (shown.length <= 40 && !kind) {
      this.picture.append(...shown.map(([x, y]) => svg('circle', {cx: this.x(x), cy: this.y(y), r: 2.2, class: one.look})));
    }
  }

  pointed(event) {
    if (!this.drawn || !this.drawn.length) return;
    const box = this.picture.getBoundingClientRect();
    this.point(this.x.invert(event.clientX - box.left));
  }

  key(event) {
    const step = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (event.key === 'Escape') this.leave();
    if (!step || !this.drawn || !this.drawn.length) return;
    event.preventDefault();
    const places = [...new Set(this.drawn.flatMap((one) => one.points.map(([x]) => x)))].sort((a, b) => a - b);
    const now = this.at === null ? (step > 0 ? -1 : places.length) : places.findIndex((x) => x >= this.at - 1e-9);
    this.point(places[Math.min(Math.max(now + step, 0), places.length - 1)]);
  }

  // Show the values at the nearest x.
  point(wanted) {
    const found = this.drawn.map((one) => [one, nearest(one.points, wanted)]);
    const [, [x]] = found.reduce((best, one) => (Math.abs(one[1][0] - wanted) < Math.abs(best[1][0] - wanted) ? one : best));
    this.at = x;
    const near = (this.x.high - this.x.low) * (this.axis === 'step' ? 1e-6 : 0.04);
    const rows = found.filter(([, point]) => Math.abs(point[0] - x) <= near).sort((a, b) => b[1][1] - a[1][1]);
    this.cursor.replaceChildren(svg('line', {x1: this.x(x), x2: this.x(x), y1: this.box.top, y2: this.box.bottom, class: 'hair'}),
      ...rows.map(([one, [px, py]]) => svg('circle', {cx: this.x(px), cy: this.y(py), r: 4.5, class: `${one.look} ringed`})));
    const heading = this.axis === 'step' ? `${this.xLabel} ${figure(x, 6)}` : span(x);
    this.tip.replaceChildren(html('b', {}, heading), ...rows.map(([one, point]) => html('p', {}, html('span', {class: `dot ${one.look}${one.dashed ? ' hollow' : ''}`}),
      html('span', {class: 'tip-name'}, one.name), html('b', {}, figure(point[1])))));
    this.tip.hidden = false;
    const room = this.picture.parentElement.clientWidth;
    const place = this.x(x);
    const wide = this.tip.offsetWidth;
    this.tip.style.left = `${Math.max(0, Math.min(place + 12 + wide > room ? place - wide - 12 : place + 12, room - wide))}px`;
  }

  leave() {
    this.at = null;
    this.tip.hidden = true;
    if (this.cursor) this.cursor.replaceChildren();
  }
}

// The distributions of one weight, with the first step at the back. steps: [{step, edges, counts}]
class Ridges {
  constructor(title, look) {
    this.look = look;
    this.picture = svg('svg', {class: 'plot ridges', role: 'img', 'aria-label': `Distribution of ${title}`});
    this.note = html('span', {class: 'soft'});
    this.element = html('figure', {class: 'card plotted ridged'}, html('figcaption', {}, html('h3', {}, title), this.note), html('div', {class: 'stage'}, this.picture));
    this.picture.addEventListener('pointermove', (event) => this.pointed(event));
    this.picture.addEventListener('pointerdown', (event) => this.pointed(event));
    this.picture.addEventListener('pointerleave', (event) => { if (event.pointerType !== 'touch') this.name(this.steps[this.steps.length - 1]); });
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  show(steps) {
    this.steps = steps.filter((one) => one.counts.length);
    this.draw();
  }

  draw() {
    const width = Math.round(this.picture.parentElement.clientWidth);
    if (!width || !this.steps) return;
    const height = 190;
    const [left, right, top, bottom] = [8, width - 34, 60, height - 24];
    fill(this.picture, {viewBox: `0 0 ${width} ${height}`, width, height}, []);
    this.picture.replaceChildren();
    if (!this.steps.length) return;
    const x = scale(extent(this.steps.flatMap((one) => [one.edges[0], one.edges[one.edges.length - 1]])), [left, right]);
    const thin = (x.high - x.low) / 200;
    const density = (one) => one.counts.map((count, at) => count / Math.max(one.edges[at + 1] - one.edges[at], thin));
    const most = Math.max(...this.steps.map((one) => Math.max(...density(one))), 1e-12);
    const count = this.steps.length;
    this.rows = this.steps.map((one, at) => {
      const ground = count > 1 ? top + at / (count - 1) * (bottom - top) : bottom;
      const points = density(one).flatMap((dense, bucket) => {
        const up = ground - dense / most * 52;
        const [a, b] = [one.edges[bucket], one.edges[bucket + 1]];
        return b - a < thin ? [[x((a + b) / 2) - 1, up], [x((a + b) / 2) + 1, up]] : [[x((a + b) / 2), up]];
      });
      const [begin, end] = [[points[0][0] - 0.5, ground], [points[points.length - 1][0] + 0.5, ground]];
      const ridge = svg('path', {d: `${path([begin, ...points, end])}Z`, class: `ridge ${this.look}`});
      ridge.style.setProperty('--share', `${Math.round(26 + 54 * (count > 1 ? at / (count - 1) : 1))}%`);
      this.picture.append(ridge);
      return {ground, ridge, one};
    });
    for (const at of x.ticks(Math.max(2, Math.floor(width / 80)))) {
      this.picture.append(svg('text', {x: x(at), y: height - 6, class: 'axis middle'}, figure(at, 3)));
    }
    this.picture.append(svg('text', {x: width - 4, y: top, class: 'axis end'}, String(this.steps[0].step + 1)));
    if (count > 1) this.picture.append(svg('text', {x: width - 4, y: bottom, class: 'axis end'}, String(this.steps[count - 1].step + 1)));
    this.name(this.steps[count - 1]);
  }

  pointed(event) {
    if (!this.rows) return;
    const y = event.clientY - this.picture.getBoundingClientRect().top;
    this.name(this.rows.reduce((best, row) => (Math.abs(row.ground - y) < Math.abs(best.ground - y) ? row : best)).one);
  }

  name(one) {
    if (!one) return;
    for (const row of this.rows) row.ridge.classList.toggle('chosen', row.one === one && this.rows.length > 1);
    const sum = one.counts.reduce((total, count) => total + count, 0);
    this.note.textContent = `epoch ${one.step + 1}: ${figure(one.edges[0], 3)} to ${figure(one.edges[one.edges.length - 1], 3)}, ${sum.toLocaleString('en')} value${sum === 1 ? '' : 's'}`;
  }
}
