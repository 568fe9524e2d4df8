// The tables and charts of Google Charts' API, drawn with pipeline/charts/charts.js. datatable.js must run first.
'use strict';
(() => {
  const {html, svg, figure, extent, scale, axes, path} = headraceCharts;
  const {events} = window.google.visualization;
  const COLORS = ['#3366cc', '#dc3912', '#ff9900', '#109618', '#990099', '#0099c6', '#dd4477', '#66aa00', '#b82e2e', '#316395'];
  const FONT = 'Roboto,Arial,sans-serif';
  document.head.append(html('style', {}, `
    .headrace-chart { font: 11px ${FONT}; fill: #444; } .headrace-chart .grid { stroke: #ddd; }
    .headrace-chart .middle { text-anchor: middle; } .headrace-chart .end { text-anchor: end; }`));

  const pen = document.createElement('canvas').getContext('2d');
  pen.font = `11px ${FONT}`;
  const wide = (words) => pen.measureText(words).width;
  // Wrap text at `room` pixels, after spaces, slashes and underscores; a part without any of them may be longer.
  const wrapped = (words, room) => (String(words).match(/[^\s/_]*[\s/_]|[^\s/_]+/g) || ['']).reduce((lines, part) => {
    if (lines.at(-1) && wide(lines.at(-1) + part.trimEnd()) > room) return [...lines, part];
    return [...lines.slice(0, -1), lines.at(-1) + part];
  }, ['']);
  const cut = (words, room) => {
    let kept = String(words);
    if (wide(kept) <= room) return kept;
    while (kept && wide(`${kept}…`) > room) kept = kept.slice(0, -1);
    return `${kept}…`;
  };
  const short = (value) => figure(value, 3);

  class Drawn {
    constructor(container) { this.container = container; this.selected = []; }
    getSelection() { return this.selected; }
    setSelection(selected) { this.selected = selected || []; }
    getContainer() { return this.container; }
    clearChart() { this.container.replaceChildren(); }
    select(row, at) { this.selected = [{row, column: at ?? null}]; events.trigger(this, 'select'); }
    draw(table, options) {
      if (!table) return;
      this.container.replaceChildren(this.make(table, options || {}));
      events.trigger(this, 'ready');
    }
  }

  const length = (name, value) => (value === undefined || value === null ? '' : `${name}:${typeof value === 'number' ? `${value}px` : value};`);

  class Table extends Drawn {
    getSortInfo() { return this.sorting || {column: -1, ascending: true, sortedIndexes: null}; }
    make(table, options) {
      const at = options.sortColumn ?? -1;
      if (!this.sorting && at >= 0) this.sorting = {column: at, ascending: options.sortAscending !== false};
      const rows = this.sorting ? table.getSortedRows({column: this.sorting.column, desc: !this.sorting.ascending}) : table.all();
      if (this.sorting) this.sorting.sortedIndexes = rows;
      const size = options.page === 'enable' ? options.pageSize || 10 : rows.length;
      const pages = Math.max(Math.ceil(rows.length / size), 1);
      this.page = Math.min(this.page ?? options.startPage ?? 0, pages - 1);
      const head = table.cols.map((one, number) => this.heading(one.label, number, table, options));
      const body = rows.slice(this.page * size, (this.page + 1) * size).map((row, number) => html(
        'tr', {class: options.cssClassNames?.tableRow || '', onclick: () => this.select(row), onmouseenter: () => events.trigger(this, 'onmouseover', {row})},
        ...(options.showRowNumber ? [this.cell(this.page * size + number + 1, 'number')] : []),
        ...table.cols.map((one, place) => this.cell(table.getFormattedValue(row, place), one.type, options.allowHtml, table.getProperties(row, place)))));
      const style = `overflow:auto;max-width:100%;${length('width', options.width)}${length('max-height', options.height)}`;
      return html('div', {class: 'google-visualization-table', style},
        html('table', {class: 'google-visualization-table-table', style: `border-collapse:collapse;font:12px ${FONT};width:100%`},
          html('thead', {}, html('tr', {class: options.cssClassNames?.headerRow || ''}, ...(options.showRowNumber ? [this.heading('')] : []), ...head)),
          html('tbody', {}, ...body)),
        ...(pages > 1 ? [this.turn(table, options, pages)] : []));
    }
    heading(label, number, table, options) {
      const sorted = number !== undefined && this.sorting?.column === number;
      const onclick = () => {
        if (number === undefined) return;
        this.sorting = {column: number, ascending: sorted ? !this.sorting.ascending : true};
        events.trigger(this, 'sort', this.sorting);
        this.draw(table, options);
      };
      const style = 'text-align:left;padding:4px 8px;border:1px solid #ddd;background:#f4f6fa;position:sticky;top:0;cursor:pointer';
      return html('th', {class: 'google-visualization-table-th', style, onclick}, label + (sorted ? (this.sorting.ascending ? ' ▲' : ' ▼') : ''));
    }
    cell(value, type, markup, properties) {
      const style = `padding:3px 8px;border:1px solid #eee;text-align:${type === 'number' ? 'right' : 'left'};${properties?.style || ''}`;
      const made = html('td', {class: `google-visualization-table-td ${properties?.className || ''}`, style});
      if (markup) made.innerHTML = value;
      else made.textContent = value;
      return made;
    }
    turn(table, options, pages) {
      const button = (words, to) => html('button', {disabled: to < 0 || to >= pages, onclick: () => { this.page = to; this.draw(table, options); }}, words);
      return html('div', {style: `padding:4px;font:12px ${FONT}`}, button('‹', this.page - 1), ` ${this.page + 1} of ${pages} `, button('›', this.page + 1));
    }
  }

  class Chart extends Drawn {
    size(options) {
      const number = (given, own, least) => (typeof given === 'number' ? given : Math.max(own || 0, least));
      return [number(options.width, this.container.clientWidth, 400), number(options.height, this.container.clientHeight, 240)];
    }
    colors(options) { return options.colors || options.slices?.map?.((one) => one.color) || COLORS; }
    frame(options) {
      const [width, height] = this.size(options);
      const picture = svg('svg', {class: 'headrace-chart', width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': options.title || 'Chart'});
      if (options.title) picture.append(svg('text', {x: 8, y: 16, style: 'font-weight:bold;font-size:13px'}, options.title));
      return [picture, width, height];
    }
    // The legend, from x to the right edge: names are wrapped, or cut to one line each if there are too many.
    legend(picture, names, colors, x, y, [width, height]) {
      const room = width - x - 20;
      let entries = names.map((name) => wrapped(name, room));
      if (y + entries.reduce((sum, lines) => sum + 13 * lines.length + 4, 0) > height) entries = names.map((name) => [name]);
      let top = y;
      entries.forEach((lines, at) => {
        picture.append(svg('rect', {x, y: top, width: 11, height: 11, fill: colors[at % colors.length]}),
          ...lines.map((line, number) => svg('text', {x: x + 16, y: top + 10 + 13 * number, 'data-legend': at}, cut(line, room), svg('title', {}, String(names[at])))));
        top += 13 * lines.length + 4;
      });
    }
  }

  class PieChart extends Chart {
    make(table, options) {
      const [picture, width, height] = this.frame(options);
      const colors = this.colors(options);
      let parts = table.all().map((row) => [table.getFormattedValue(row, 0), Math.max(table.getValue(row, 1) || 0, 0)]);
      if (parts.length > 10) parts = [...parts.slice(0, 9), ['Other', parts.slice(9).reduce((sum, [, value]) => sum + value, 0)]];
      const whole = parts.reduce((sum, [, value]) => sum + value, 0) || 1;
      const radius = Math.min(width / 4, height / 2 - 24);
      const [x, y] = [radius + 12, height / 2 + 8];
      let angle = -Math.PI / 2;
      parts.forEach(([name, value], at) => {
        const turn = Math.min(value / whole, 0.99999) * 2 * Math.PI;
        const point = (one) => `${x + radius * Math.cos(one)} ${y + radius * Math.sin(one)}`;
        const d = `M${x} ${y}L${point(angle)}A${radius} ${radius} 0 ${turn > Math.PI ? 1 : 0} 1 ${point(angle + turn)}Z`;
        picture.append(svg('path', {d, fill: colors[at % colors.length], onclick: () => this.select(at)},
          svg('title', {}, `${name}: ${short(value)} (${(100 * value / whole).toFixed(1)}%)`)));
        angle += turn;
      });
      this.legend(picture, parts.map(([name, value]) => `${name} (${(100 * value / whole).toFixed(1)}%)`), colors, 2 * radius + 32, 28, [width, height]);
      return picture;
    }
  }

  // Columns, bars, areas, lines and points over the first column; the other columns are the series.
  class Series extends Chart {
    make(table, options) {
      const [picture, width, height] = this.frame(options);
      const columns = table.cols.map((_, at) => at).filter((at) => at > 0 && !table.getColumnRole(at) && table.getColumnType(at) === 'number');
      const names = columns.map((at) => table.getColumnLabel(at));
      const legend = options.legend !== 'none' && options.legend?.position !== 'none';
      const right = legend ? Math.min(Math.max(...names.map(wide), 60) + 36, 0.4 * width) : 12;
      const box = {left: 64, top: 28, right: Math.max(width - right, 104), bottom: Math.max(height - 44, 68)};
      const kind = table.getNumberOfRows() > 1 ? this.kind : 'column'; // a line through one point is invisible
      const flat = this.kind === 'bar';
      const [across, up] = [[box.left, box.right], [box.bottom, box.top]];
      const places = this.places(table, kind, flat ? [box.top, box.bottom] : across, flat ? 14 : 70, options.hAxis);
      const stacked = Boolean(options.isStacked) || this.kind === 'stacked';
      const spans = this.spans(table, columns, stacked);
      const amounts = this.amounts(spans, flat ? across : up, options.vAxis);
      const marks = amounts.ticks(6).map((amount) => [amounts(amount), short(amount)]);
      if (flat) axes(picture, box, {marks, grid: true}, {marks: places.marks.map(([at, words]) => [at, words.slice(0, 10)])});
      else axes(picture, box, {marks: places.marks, label: options.hAxis?.title}, {marks, grid: true, label: options.vAxis?.title});
      columns.forEach((at, number) => {
        const color = this.colors(options)[number % this.colors(options).length];
        const told = (row) => svg('title', {}, `${table.getFormattedValue(row, 0)}: ${table.getColumnLabel(at)} ${short(table.getValue(row, at) || 0)}`);
        if (['line', 'point', 'area'].includes(kind)) this.points(picture, spans[number], color, places.at, amounts, told);
        else this.bars(picture, spans[number], color, {places, amounts, flat, share: stacked ? [0, 1] : [number, columns.length]}, (row) => this.select(row, at), told);
      });
      if (legend) this.legend(picture, names, this.colors(options), width - right + 14, 30, [width, height]);
      return picture;
    }
    // Where each row is: at its number, if the first column has numbers that a line or points lie over, else in slots.
    places(table, kind, [start, end], room, axis) {
      const rows = table.all();
      const first = rows.map((row) => table.getValue(row, 0));
      if (['line', 'point', 'area'].includes(kind) && first.every((value) => Number.isFinite(value))) {
        const log = logarithmic(axis) && first.every((value) => value > 0);
        const x = scale(extent(first), [start, end], {log, pad: 0.03});
        return {at: (row) => x(first[row]), marks: x.ticks((end - start) / room).map((value) => [x(value), figure(value, 6)])};
      }
      const slot = (end - start) / Math.max(rows.length, 1);
      const at = (row) => start + (row + 0.5) * slot;
      const shown = rows.filter((row) => row % Math.ceil(room / slot) === 0);
      return {at, slot, marks: shown.map((row) => [at(row), table.getFormattedValue(row, 0).slice(0, 12)])};
    }
    // From where to where each series reaches in each row; null where it has no value.
    spans(table, columns, stacked) {
      const floor = table.all().map(() => 0);
      return columns.map((at) => table.all().map((row) => {
        const value = table.getValue(row, at);
        if (!stacked) return value === null ? null : [0, value];
        const from = floor[row];
        floor[row] += Math.max(value || 0, 0);
        return [from, floor[row]];
      }));
    }
    amounts(spans, pixels, axis) {
      const found = extent(spans.flat(2).filter((value) => value !== null));
      const [least, most] = [found[0], Math.max(found[1], axis?.maxValue ?? 0)];
      const tops = spans.flat().filter((one) => one !== null).map(([, to]) => to);
      if (logarithmic(axis) && Math.min(...tops) > 0) return scale(extent(tops), pixels, {log: true, pad: 0.03});
      return scale([least, most > least ? most : least + 1], pixels);
    }
    points(picture, spans, color, at, amounts, told) {
      const ends = spans.map((one, row) => one && [at(row), amounts(one[1])]);
      if (this.kind === 'area') {
        const back = spans.map((one, row) => one && [at(row), amounts(one[0])]).reverse();
        picture.append(svg('path', {d: `${path([...ends, ...back].filter(Boolean))}Z`, fill: color, 'fill-opacity': 0.5}));
      }
      if (this.kind !== 'point') picture.append(svg('path', {d: path(ends), fill: 'none', stroke: color, 'stroke-width': 2}));
      const r = this.kind === 'point' || spans.length < 3 ? 3 : 1.5;
      ends.forEach((point, row) => point && picture.append(svg('circle', {cx: point[0], cy: point[1], r, fill: color}, told(row))));
    }
    bars(picture, spans, color, {places, amounts, flat, share: [number, count]}, select, told) {
      const thick = Math.max(places.slot * 0.8 / count, 1);
      spans.forEach((span, row) => {
        if (!span) return;
        const begin = places.at(row) - places.slot * 0.4 + number * thick;
        const [from, to] = span.map(amounts).sort((one, other) => one - other);
        const rect = flat ? {x: from, width: to - from, y: begin, height: thick} : {x: begin, width: thick, y: from, height: to - from};
        picture.append(svg('rect', {...rect, fill: color, onclick: () => select(row)}, told(row)));
      });
    }
  }
  const logarithmic = (axis) => Boolean(axis?.logScale) || axis?.scaleType === 'log';

  class Told extends Chart {
    make() {
      return html('p', {}, 'This chart is drawn by Google Charts alone: start TensorBoard with --google-charts, on a machine with the internet.');
    }
  }

  const kind = (name) => class extends Series { get kind() { return name; } };
  Object.assign(window.google.visualization, {
    Table, PieChart,
    ColumnChart: kind('column'), BarChart: kind('bar'), AreaChart: kind('area'), SteppedAreaChart: kind('stacked'),
    LineChart: kind('line'), ComboChart: kind('column'), ScatterChart: kind('point'),
    Histogram: Told, CandlestickChart: Told, BubbleChart: Told,
  });
})();
