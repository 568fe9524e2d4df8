'use strict';
// What charts are made of: elements, numbers as text, scales with ticks, axes and curves, as SVG.
// Text is always inserted as text, never as HTML. A page gives the classes `grid`, `axis`, `middle` and `end` their look.
const headraceCharts = (() => {
  const SVG = 'http://www.w3.org/2000/svg';
  const MOST_POINTS = 1500;

  // Set attributes and listeners (`onclick`), and append children. An attribute that is false or null is left out.
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
    if (size !== 0 && (size < 1e-4 || size >= 1e7)) return value.toExponential(Math.max(digits - 2, 0)).replace('e+', 'e');
    return String(Number(value.toPrecision(size >= 1000 ? Math.max(digits, Math.ceil(Math.log10(size + 1))) : digits)));
  }

  // The lowest and the highest number; [0, 0] without any.
  function extent(values) {
    let [low, high] = [Infinity, -Infinity];
    for (const value of values) { low = Math.min(low, value); high = Math.max(high, value); }
    return low <= high ? [low, high] : [0, 0];
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

  // A map from values to pixels, linear or logarithmic. `pad`: the share of the range to add on each side.
  function scale([first, last], [start, end], {log = false, pad = 0} = {}) {
    const [by, back] = log ? [Math.log10, (value) => 10 ** value] : [(value) => value, (value) => value];
    let [low, high] = [by(first), by(last)];
    const more = high > low ? (high - low) * pad : Math.abs(high) * 0.05 || 0.5; // never empty
    [low, high] = [low - more, high + more];
    const place = (value) => start + (by(value) - low) / (high - low) * (end - start);
    place.low = back(low);
    place.high = back(high);
    place.invert = (pixel) => back(low + (pixel - start) / (end - start) * (high - low));
    place.ticks = (count, whole) => (log ? logTicks(place.low, place.high) : ticks(low, high, count, whole));
    return place;
  }

  // Both axes of a box {left, right, top, bottom}. An axis: {marks: [[pixel, words]], label, grid: with lines at the marks}.
  function axes(picture, {left, right, top, bottom}, across, up) {
    const line = (x1, y1, x2, y2) => svg('line', {x1, x2, y1, y2, class: 'grid'});
    if (across.grid) picture.append(...across.marks.map(([x]) => line(x, top, x, bottom)));
    if (up.grid) picture.append(...up.marks.map(([y]) => line(left, y, right, y)));
    picture.append(...across.marks.map(([x, words]) => svg('text', {x, y: bottom + 16, class: 'axis middle'}, words)));
    picture.append(...up.marks.map(([y, words]) => svg('text', {x: left - 6, y: y + 4, class: 'axis end'}, words)));
    const middle = (top + bottom) / 2;
    if (across.label) picture.append(svg('text', {x: (left + right) / 2, y: bottom + 32, class: 'axis middle'}, across.label));
    if (up.label) picture.append(svg('text', {x: left - 50, y: middle, class: 'axis middle', transform: `rotate(-90 ${left - 50} ${middle})`}, up.label));
  }

  // The path through points [x, y] in pixels, interrupted where one is null.
  const path = (points) => points.map((point, at) => (point ? `${at && points[at - 1] ? 'L' : 'M'}${point[0].toFixed(1)} ${point[1].toFixed(1)}` : '')).join('');

  // Thin out a curve to MOST_POINTS points, keeping the first and the last.
  function thinned(points) {
    if (points.length <= MOST_POINTS) return points;
    const step = (points.length - 1) / (MOST_POINTS - 1);
    return Array.from({length: MOST_POINTS}, (_, at) => points[Math.round(at * step)]);
  }

  return {fill, html, svg, figure, extent, scale, axes, path, thinned};
})();
