'use strict';
// Line charts and stacked histograms as SVG. Text is always inserted as text, never as HTML.

const SVG = 'http://www.w3.org/2000/svg';
const MOST_POINTS = 1500;

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith('on')) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, '');
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}
const html = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
const svg = (name, attributes, ...children) => fill(document.createElementNS(SVG, name), attributes, children);

// Format a number with `digits` significant digits.
function figure(value, digits = 4) {
  if (value === null || value === undefined || !Number.isFinite(value)) return '–';
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e7)) return value.toExponential(digits - 2).replace('e+', 'e');
  return String(Number(value.toPrecision(size >= 1000 ? Math.max(digits, Math.ceil(Math.log10(size + 1))) : digits)));
}

function span(seconds) {
  if (seconds < 60) return `${figure(seconds, 3)} s`;
  if (seconds < 3600) return `${figure(seconds / 60, 3)} min`;
  return `${figure(seconds / 3600, 3)} h`;
}

// Round values from low to high, about `count` of them.
function ticks(low, high, count, whole) {
  const raw = (high - low) / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(raw));
  let step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= raw * 0.999) || raw;
  if (whole) step = Math.max(1, Math.round(step));
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9 && found.length < 50; at += 1) found.push(at * step);
  return found;
}

function logTicks(low, high) {
  const found = [];
  const factors = high / low > 200 ? [1] : high / low > 8 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 8];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
    for (const factor of factors) {
      const at = factor * 10 ** power;
      if (at >= low * 0.999 && at <= high * 1.001) found.push(at);
    }
  }
  return found.length > 1 ? found : [low, high];
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

// Thin out a curve to MOST_POINTS points, keeping the first and the last.
function thinned(points) {
  if (points.length <= MOST_POINTS) return points;
  const step = (points.length - 1) / (MOST_POINTS - 1);
  return Array.from({length: MOST_POINTS}, (_, at) => points[Math.round(at * step)]);
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
    this.axes();
    for (const one of this.drawn) {
      if (one.raw !== one.points && one.smoothed) this.line(one, one.raw, 'faint');
      this.line(one, one.points, '');
    }
    this.cursor = svg('g', {class: 'cursor'});
    this.picture.append(this.cursor);
    if (this.at !== null) this.point(this.at);
  }

  scales() {
    const all = this.drawn.flatMap((one) => [...one.points, ...one.raw]);
    let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
    for (const [x, y] of all) { x0 = Math.min(x0, x); x1 = Math.max(x1, x); y0 = Math.min(y0, y); y1 = Math.max(y1, y); }
    if (x0 === x1) { x0 -= 0.5; x1 += 0.5; }
    const by = this.log ? Math.log10 : (y) => y;
    let [low, high] = [by(y0), by(y1)];
    const pad = (high - low) * 0.06 || Math.abs(high) * 0.05 || 1;
    [low, high] = [low - pad, high + pad];
    const {left, right, top, bottom} = this.box;
    this.x = (value) => left + (value - x0) / (x1 - x0) * (right - left);
    this.y = (value) => bottom - (by(value) - low) / (high - low) * (bottom - top);
    this.range = {x0, x1, y0: this.log ? 10 ** low : low, y1: this.log ? 10 ** high : high};
    this.back = (place) => x0 + (place - left) / (right - left) * (x1 - x0);
  }

  axes() {
    const {left, right, bottom} = this.box;
    const {x0, x1, y0, y1} = this.range;
    for (const at of this.log ? logTicks(y0, y1) : ticks(y0, y1, 5)) {
      const y = this.y(at);
      this.picture.append(svg('line', {x1: left, x2: right, y1: y, y2: y, class: 'grid'}), svg('text', {x: left - 6, y: y + 4, class: 'axis end'}, figure(at)));
    }
    const count = Math.max(2, Math.floor((right - left) / 70));
    for (const at of ticks(x0, x1, count, this.whole && this.axis === 'step')) {
      this.picture.append(svg('text', {x: this.x(at), y: bottom + 16, class: 'axis middle'}, this.axis === 'step' ? figure(at, 6) : span(at)));
    }
    this.picture.append(svg('text', {x: (left + right) / 2, y: bottom + 32, class: 'axis middle'}, this.xLabel));
  }

  line(one, points, kind) {
    const shown = thinned(points);
    const path = shown.map(([x, y], at) => `${at ? 'L' : 'M'}${this.x(x).toFixed(1)} ${this.y(y).toFixed(1)}`).join('');
    this.picture.append(svg('path', {d: path, class: `curve ${one.look} ${kind}`, 'stroke-dasharray': stroke(one)}));
    if (shown.length <= 40 && !kind) {
      this.picture.append(...shown.map(([x, y]) => svg('circle', {cx: this.x(x), cy: this.y(y), r: 2.2, class: one.look})));
    }
  }

  pointed(event) {
    if (!this.drawn || !this.drawn.length) return;
    const box = this.picture.getBoundingClientRect();
    this.point(this.back(event.clientX - box.left));
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
    const near = (this.range.x1 - this.range.x0) * (this.axis === 'step' ? 1e-6 : 0.04);
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
    let [low, high] = [Math.min(...this.steps.map((one) => one.edges[0])), Math.max(...this.steps.map((one) => one.edges[one.edges.length - 1]))];
    if (low === high) { low -= Math.abs(low) * 0.1 || 0.5; high += Math.abs(high) * 0.1 || 0.5; }
    const x = (value) => left + (value - low) / (high - low) * (right - left);
    const thin = (high - low) / 200;
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
      const path = [begin, ...points, end].map(([px, py], place) => `${place ? 'L' : 'M'}${px.toFixed(1)} ${py.toFixed(1)}`).join('');
      const ridge = svg('path', {d: `${path}Z`, class: `ridge ${this.look}`});
      ridge.style.setProperty('--share', `${Math.round(26 + 54 * (count > 1 ? at / (count - 1) : 1))}%`);
      this.picture.append(ridge);
      return {ground, ridge, one};
    });
    for (const at of ticks(low, high, Math.max(2, Math.floor(width / 80)))) {
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
