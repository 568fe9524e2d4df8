// The tables and charts. charts.js must run first.
'use strict';
(() => {
  const {SVG, COLORS, Drawn, events} = window.headraceCharts;

  const element = (name, attributes, ...children) => {
    const made = document.createElementNS(SVG, name);
    Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
    made.append(...children);
    return made;
  };
  const text = (x, y, words, more) => element('text', {x, y, 'font-size': 11, fill: '#444', ...more}, String(words));
  const pen = document.createElement('canvas').getContext('2d');
  pen.font = '11px Roboto,Arial,sans-serif';
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
  const short = (value) => (Math.abs(value) >= 1e5 || (value !== 0 && Math.abs(value) < 1e-3) ? value.toExponential(1) : String(Number(value.toPrecision(3))));

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
      const box = document.createElement('div');
      box.className = 'google-visualization-table';
      box.style.cssText = `overflow:auto;max-width:100%;${length('width', options.width)}${length('max-height', options.height)}`;
      const grid = box.appendChild(document.createElement('table'));
      grid.className = 'google-visualization-table-table';
      grid.style.cssText = 'border-collapse:collapse;font:12px Roboto,Arial,sans-serif;width:100%';
      const head = grid.createTHead().insertRow();
      head.className = options.cssClassNames?.headerRow || '';
      if (options.showRowNumber) head.append(this.heading(''));
      table.cols.forEach((one, number) => head.append(this.heading(one.label, () => {
        const ascending = this.sorting?.column === number ? !this.sorting.ascending : true;
        this.sorting = {column: number, ascending};
        events.trigger(this, 'sort', this.sorting);
        this.draw(table, options);
      }, this.sorting?.column === number ? (this.sorting.ascending ? ' ▲' : ' ▼') : '')));
      const body = grid.createTBody();
      rows.slice(this.page * size, (this.page + 1) * size).forEach((row, number) => {
        const line = body.insertRow();
        line.className = options.cssClassNames?.tableRow || '';
        line.onclick = () => this.select(row);
        line.onmouseenter = () => events.trigger(this, 'onmouseover', {row});
        if (options.showRowNumber) this.fill(line, this.page * size + number + 1, 'number');
        table.cols.forEach((one, place) => this.fill(line, table.getFormattedValue(row, place), one.type, options.allowHtml, table.getProperties(row, place)));
      });
      if (pages > 1) box.append(this.turn(table, options, pages));
      return box;
    }
    heading(label, sort, mark) {
      const made = document.createElement('th');
      made.textContent = label + (mark || '');
      made.className = 'google-visualization-table-th';
      made.style.cssText = 'text-align:left;padding:4px 8px;border:1px solid #ddd;background:#f4f6fa;position:sticky;top:0;cursor:pointer';
      if (sort) made.onclick = sort;
      return made;
    }
    fill(line, value, type, html, properties) {
      const made = line.insertCell();
      made.className = `google-visualization-table-td ${properties?.className || ''}`;
      made.style.cssText = `padding:3px 8px;border:1px solid #eee;text-align:${type === 'number' ? 'right' : 'left'};${properties?.style || ''}`;
      if (html) made.innerHTML = value;
      else made.textContent = value;
    }
    turn(table, options, pages) {
      const made = document.createElement('div');
      made.style.cssText = 'padding:4px;font:12px Roboto,Arial,sans-serif';
      const button = (words, to) => {
        const one = document.createElement('button');
        one.textContent = words;
        one.disabled = to < 0 || to >= pages;
        one.onclick = () => { this.page = to; this.draw(table, options); };
        return one;
      };
      made.append(button('‹', this.page - 1), ` ${this.page + 1} of ${pages} `, button('›', this.page + 1));
      return made;
    }
  }
  const length = (name, value) => (value === undefined || value === null ? '' : `${name}:${typeof value === 'number' ? `${value}px` : value};`);

  class Chart extends Drawn {
    size(options) {
      const number = (given, own, least) => (typeof given === 'number' ? given : Math.max(own || 0, least));
      return [number(options.width, this.container.clientWidth, 400), number(options.height, this.container.clientHeight, 240)];
    }
    colors(options) { return options.colors || options.slices?.map?.((one) => one.color) || COLORS; }
    frame(options) {
      const [width, height] = this.size(options);
      const svg = element('svg', {width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'font-family': 'Roboto,Arial,sans-serif'});
      if (options.title) svg.append(text(8, 16, options.title, {'font-weight': 'bold', 'font-size': 13}));
      return [svg, width, height];
    }
    // The legend, from x to the right edge: names are wrapped, or cut to one line each if there are too many.
    legend(svg, names, colors, x, y, [width, height]) {
      const room = width - x - 20;
      let entries = names.map((name) => wrapped(name, room));
      if (y + entries.reduce((sum, lines) => sum + 13 * lines.length + 4, 0) > height) entries = names.map((name) => [name]);
      let top = y;
      entries.forEach((lines, at) => {
        svg.append(element('rect', {x, y: top, width: 11, height: 11, fill: colors[at % colors.length]}));
        lines.forEach((line, number) => {
          const words = text(x + 16, top + 10 + 13 * number, cut(line, room), {'data-legend': at});
          words.append(element('title', {}, String(names[at])));
          svg.append(words);
        });
        top += 13 * lines.length + 4;
      });
    }
  }

  class PieChart extends Chart {
    make(table, options) {
      const [svg, width, height] = this.frame(options);
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
        const path = element('path', {fill: colors[at % colors.length], d: `M${x} ${y}L${point(angle)}A${radius} ${radius} 0 ${turn > Math.PI ? 1 : 0} 1 ${point(angle + turn)}Z`},
          element('title', {}, `${name}: ${short(value)} (${(100 * value / whole).toFixed(1)}%)`));
        path.onclick = () => this.select(at);
        svg.append(path);
        angle += turn;
      });
      this.legend(svg, parts.map(([name, value]) => `${name} (${(100 * value / whole).toFixed(1)}%)`), colors, 2 * radius + 32, 28, [width, height]);
      return svg;
    }
  }

  // Columns, bars, areas, lines and points over the first column; the other columns are the series.
  class Series extends Chart {
    make(table, options) {
      const [svg, width, height] = this.frame(options);
      const colors = this.colors(options);
      const series = table.cols.map((_, at) => at).filter((at) => at > 0 && !table.getColumnRole(at) && table.getColumnType(at) === 'number');
      const stacked = Boolean(options.isStacked) || this.kind === 'stacked';
      const rows = table.all();
      const value = (row, at) => table.getValue(row, at) || 0;
      const tops = rows.map((row) => (stacked ? series.reduce((sum, at) => sum + Math.max(value(row, at), 0), 0) : Math.max(...series.map((at) => value(row, at)), 0)));
      const low = stacked ? 0 : Math.min(0, ...rows.flatMap((row) => series.map((at) => value(row, at))));
      const most = Math.max(...tops, options.vAxis?.maxValue ?? 0, low + 1e-12);
      const names = series.map((at) => table.getColumnLabel(at));
      const right = options.legend === 'none' || options.legend?.position === 'none' ? 12 : Math.min(Math.max(...names.map(wide), 60) + 36, 0.4 * width);
      const box = {left: 64, top: 28, width: Math.max(width - 64 - right, 40), height: Math.max(height - 28 - 44, 40)};
      const flat = this.kind === 'bar';
      const along = (share) => (flat ? box.top + share * box.height : box.left + share * box.width);
      const up = (amount) => { const share = (amount - low) / (most - low); return flat ? box.left + share * box.width : box.top + box.height * (1 - share); };
      for (let mark = 0; mark <= 4; mark += 1) {
        const amount = low + (most - low) * mark / 4;
        const [at, words] = [up(amount), short(amount)];
        svg.append(flat ? element('line', {x1: at, x2: at, y1: box.top, y2: box.top + box.height, stroke: '#ddd'}) : element('line', {x1: box.left, x2: box.left + box.width, y1: at, y2: at, stroke: '#ddd'}),
          flat ? text(at, box.top + box.height + 14, words, {'text-anchor': 'middle'}) : text(box.left - 6, at + 4, words, {'text-anchor': 'end'}));
      }
      const slot = 1 / Math.max(rows.length, 1);
      const every = Math.ceil(rows.length / (flat ? box.height / 14 : box.width / 70));
      rows.forEach((row, number) => {
        if (number % every) return;
        const words = table.getFormattedValue(row, 0).slice(0, 24);
        svg.append(flat ? text(box.left - 6, along((number + 0.5) * slot) + 4, words.slice(0, 10), {'text-anchor': 'end'}) : text(along((number + 0.5) * slot), box.top + box.height + 14, words.slice(0, 12), {'text-anchor': 'middle'}));
      });
      if (!flat && options.hAxis?.title) svg.append(text(box.left + box.width / 2, height - 6, options.hAxis.title, {'text-anchor': 'middle'}));
      if (!flat && options.vAxis?.title) svg.append(text(14, box.top + box.height / 2, options.vAxis.title, {'text-anchor': 'middle', transform: `rotate(-90 14 ${box.top + box.height / 2})`}));
      const floor = rows.map(() => low);
      const drawn = rows.length > 1 ? this.kind : 'column'; // a line through one point is invisible
      series.forEach((at, place) => {
        const color = colors[place % colors.length];
        const spans = rows.map((row, number) => {
          const from = stacked ? floor[number] : Math.max(low, 0);
          const to = stacked ? from + Math.max(value(row, at), 0) : value(row, at);
          if (stacked) floor[number] = to;
          return [from, to];
        });
        if (['line', 'point', 'area'].includes(drawn)) this.points(svg, spans, {color, along, up, slot, box}, table, rows, at);
        else {
          const thick = Math.max((flat ? box.height : box.width) * slot * (stacked ? 0.8 : 0.8 / series.length), 1);
          spans.forEach(([from, to], number) => {
            const begin = along((number + 0.1) * slot) + (stacked ? 0 : place * thick);
            const [a, b] = [Math.min(up(from), up(to)), Math.abs(up(from) - up(to))];
            const bar = element('rect', {...(flat ? {x: a, width: b, y: begin, height: thick} : {x: begin, width: thick, y: a, height: b}), fill: color},
              element('title', {}, `${table.getFormattedValue(rows[number], 0)}: ${table.getColumnLabel(at)} ${short(value(rows[number], at))}`));
            bar.onclick = () => this.select(rows[number], at);
            svg.append(bar);
          });
        }
      });
      if (right > 12) this.legend(svg, names, colors, width - right + 14, 30, [width, height]);
      return svg;
    }
    points(svg, spans, {color, along, up, slot}, table, rows, at) {
      const place = (number, amount) => `${along((number + 0.5) * slot)} ${up(amount)}`;
      const line = spans.map(([, to], number) => place(number, to));
      if (this.kind === 'area') {
        const back = spans.map(([from], number) => place(number, from)).reverse();
        svg.append(element('path', {d: `M${[...line, ...back].join('L')}Z`, fill: color, 'fill-opacity': 0.5}));
      }
      if (this.kind !== 'point' && line.length > 1) svg.append(element('path', {d: `M${line.join('L')}`, fill: 'none', stroke: color, 'stroke-width': 2}));
      spans.forEach(([, to], number) => svg.append(element('circle', {cx: along((number + 0.5) * slot), cy: up(to), r: this.kind === 'point' || spans.length < 3 ? 3 : 1.5, fill: color},
        element('title', {}, `${table.getFormattedValue(rows[number], 0)}: ${table.getColumnLabel(at)} ${short(to)}`))));
    }
  }

  class Told extends Chart {
    make() {
      const made = document.createElement('p');
      made.textContent = 'This chart is drawn by Google Charts alone: start TensorBoard with --google-charts, on a machine with the internet.';
      return made;
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
