// The tables of Google Charts' API that TensorBoard's profile plugin uses, so that its pages work without the internet:
// the plugin loads none of its own code before Google's loader has arrived. drawing.js draws them.
'use strict';
(() => {
  const cell = (given) => (given !== null && typeof given === 'object' && !(given instanceof Date) && !Array.isArray(given)
    ? {v: given.v ?? null, f: given.f, p: given.p || {}} : {v: given ?? null, p: {}});
  const column = (given, label, id) => (typeof given === 'object'
    ? {...given, label: given.label || '', id: given.id || '', type: given.type || 'string', p: given.p || {}}
    : {type: given, label: label || '', id: id || '', p: {}});

  // The common base of tables and views of them. A subclass provides `cols` and `cells(row)`.
  class Data {
    getNumberOfColumns() { return this.cols.length; }
    getColumnLabel(at) { return this.cols[this.getColumnIndex(at)].label; }
    getColumnId(at) { return this.cols[at].id; }
    getColumnType(at) { return this.cols[at].type; }
    getColumnRole(at) { return this.cols[at].role || this.cols[at].p.role || ''; }
    getColumnProperty(at, name) { return this.cols[at].p[name] ?? null; }
    getColumnProperties(at) { return this.cols[at].p; }
    getColumnIndex(which) {
      if (typeof which === 'number') return which;
      const byId = this.cols.findIndex((one) => one.id === which);
      return byId >= 0 ? byId : this.cols.findIndex((one) => one.label === which);
    }
    getValue(row, at) { return this.cells(row)[this.getColumnIndex(at)]?.v ?? null; }
    getFormattedValue(row, at) {
      const {v, f} = this.cells(row)[this.getColumnIndex(at)] || {};
      if (f !== undefined && f !== null) return f;
      return v === null || v === undefined ? '' : typeof v === 'number' ? String(Number(v.toPrecision(10))) : String(v);
    }
    getProperty(row, at, name) { return this.cells(row)[at]?.p[name] ?? null; }
    getProperties(row, at) { return this.cells(row)[at]?.p ?? {}; }
    getRowProperty() { return null; }
    getRowProperties() { return {}; }
    all() { return Array.from({length: this.getNumberOfRows()}, (_, row) => row); }
    getDistinctValues(at) { return [...new Set(this.all().map((row) => this.getValue(row, at)))].sort(compare); }
    getColumnRange(at) {
      const values = this.all().map((row) => this.getValue(row, at)).filter((value) => value !== null).sort(compare);
      return {min: values[0] ?? null, max: values[values.length - 1] ?? null};
    }
    getFilteredRows(filters) {
      if (typeof filters === 'function') return this.all().filter((row) => filters(this, row));
      return this.all().filter((row) => filters.every((filter) => {
        const value = this.getValue(row, filter.column);
        if (filter.test) return filter.test(value, row, filter.column, this);
        if ('value' in filter) return value === filter.value;
        return (filter.minValue == null || value >= filter.minValue) && (filter.maxValue == null || value <= filter.maxValue);
      }));
    }
    getSortedRows(by) {
      const keys = (Array.isArray(by) ? by : [by]).map((key) => (typeof key === 'object' ? key : {column: key}));
      const order = (one, other) => {
        for (const {column: at, desc, compare: own} of keys) {
          const difference = (own || compare)(this.getValue(one, at), this.getValue(other, at));
          if (difference) return desc ? -difference : difference;
        }
        return one - other;
      };
      return this.all().sort(order);
    }
    toDataTable() {
      const rows = this.all().map((row) => ({c: this.cells(row).map((one) => ({...one, p: {...one.p}}))}));
      return new DataTable({cols: this.cols.map((one) => ({...one, p: {...one.p}})), rows, p: {...this.getTableProperties()}});
    }
    toJSON() { return JSON.stringify({cols: this.cols, rows: this.all().map((row) => ({c: this.cells(row)})), p: this.getTableProperties()}); }
    getTableProperties() { return this.p || {}; }
    getTableProperty(name) { return this.getTableProperties()[name] ?? null; }
  }

  const compare = (one, other) => (one === other ? 0 : one === null ? -1 : other === null ? 1 : one < other ? -1 : one > other ? 1 : 0);

  class DataTable extends Data {
    constructor(given) {
      super();
      const said = typeof given === 'string' ? JSON.parse(given) : given || {};
      this.cols = (said.cols || []).map((one) => column(one));
      this.rows = (said.rows || []).map((row) => (row.c || []).map(cell));
      this.p = said.p || {};
    }
    cells(row) { return this.rows[row]; }
    getNumberOfRows() { return this.rows.length; }
    addColumn(type, label, id) { return this.insertColumn(this.cols.length, type, label, id); }
    insertColumn(at, type, label, id) {
      this.cols.splice(at, 0, column(type, label, id));
      this.rows.forEach((row) => row.splice(at, 0, cell(null)));
      return at;
    }
    removeColumn(at) { this.removeColumns(at, 1); }
    removeColumns(at, count) { [this.cols, ...this.rows].forEach((list) => list.splice(at, count)); }
    addRow(values) { return this.rows.push(this.cols.map((_, at) => cell((values || [])[at]))) - 1; }
    addRows(rows) {
      (typeof rows === 'number' ? Array.from({length: rows}, () => []) : rows).forEach((row) => this.addRow(row));
      return this.rows.length - 1;
    }
    insertRows(at, rows) {
      const made = (typeof rows === 'number' ? Array.from({length: rows}, () => []) : rows).map((row) => this.cols.map((_, place) => cell(row[place])));
      this.rows.splice(at, 0, ...made);
    }
    removeRow(at) { this.removeRows(at, 1); }
    removeRows(at, count) { this.rows.splice(at, count); }
    sort(by) { this.rows = this.getSortedRows(by).map((row) => this.rows[row]); }
    clone() { return this.toDataTable(); }
    setCell(row, at, v, f, p) {
      const one = this.rows[row][at];
      if (v !== undefined) Object.assign(one, {v, f: undefined});
      if (f !== undefined && f !== null) one.f = f;
      if (p) one.p = p;
    }
    setValue(row, at, v) { this.setCell(row, this.getColumnIndex(at), v); }
    setFormattedValue(row, at, f) { this.rows[row][at].f = f; }
    setProperty(row, at, name, value) { this.rows[row][at].p[name] = value; }
    setProperties(row, at, p) { this.rows[row][at].p = p; }
    setColumnLabel(at, label) { this.cols[at].label = label; }
    setColumnProperty(at, name, value) { this.cols[at].p[name] = value; }
    setColumnProperties(at, p) { this.cols[at].p = p; }
    setTableProperty(name, value) { this.p[name] = value; }
    setTableProperties(p) { this.p = p; }
    setRowProperty() {}
  }

  class DataView extends Data {
    constructor(table) {
      super();
      this.table = table;
      this.shown = table.cols.map((_, at) => at);
      this.kept = null;
    }
    get cols() {
      return this.shown.map((one) => {
        if (typeof one !== 'object') return this.table.cols[this.table.getColumnIndex(one)] || column('string');
        const source = one.sourceColumn === undefined ? {} : this.table.cols[this.table.getColumnIndex(one.sourceColumn)];
        return column({...source, ...one, type: one.type || source.type, p: {...source.p, ...one.properties}});
      });
    }
    getNumberOfRows() { return this.kept ? this.kept.length : this.table.getNumberOfRows(); }
    getTableRowIndex(row) { return this.kept ? this.kept[row] : row; }
    getTableColumnIndex(at) { const one = this.shown[at]; return typeof one === 'object' ? one.sourceColumn ?? -1 : this.table.getColumnIndex(one); }
    cells(row) {
      const at = this.getTableRowIndex(row);
      return this.shown.map((one) => {
        if (typeof one !== 'object') return this.table.cells(at)[this.table.getColumnIndex(one)] || cell(null);
        if (typeof one.calc === 'function') return cell(one.calc(this.table, at));
        if (one.calc === 'stringify') return cell(this.table.getFormattedValue(at, one.sourceColumn));
        return this.table.cells(at)[this.table.getColumnIndex(one.sourceColumn)] || cell(null);
      });
    }
    setColumns(shown) { this.shown = [...shown]; }
    hideColumns(hidden) { this.shown = this.shown.filter((one) => !hidden.includes(one)); }
    setRows(rows, last) { this.kept = Array.isArray(rows) ? rows : Array.from({length: last - rows + 1}, (_, at) => rows + at); }
    hideRows(hidden) { this.kept = (this.kept || this.table.all()).filter((row) => !hidden.includes(row)); }
    getTableProperties() { return this.table.getTableProperties(); }
  }

  function arrayToDataTable(rows, noHeadings) {
    const table = new DataTable();
    const body = noHeadings ? rows : rows.slice(1);
    rows[0].forEach((heading, at) => {
      const value = body.length ? body.map((row) => cell(row[at]).v).find((one) => one !== null) : null;
      const given = !noHeadings && heading !== null && typeof heading === 'object' ? heading : {label: noHeadings ? '' : String(heading)};
      table.addColumn({...given, type: given.type || (typeof value === 'number' ? 'number' : typeof value === 'boolean' ? 'boolean' : 'string')});
    });
    table.addRows(body);
    return table;
  }

  const numbers = (values) => values.filter((value) => value !== null);
  const data = {
    sum: (values) => numbers(values).reduce((one, other) => one + other, 0),
    count: (values) => numbers(values).length,
    avg: (values) => data.sum(values) / (numbers(values).length || 1),
    min: (values) => Math.min(...numbers(values)),
    max: (values) => Math.max(...numbers(values)),
    group(table, keys, totals) {
      const by = keys.map((key) => (typeof key === 'object' ? key : {column: key}));
      const made = new DataTable();
      by.forEach((key) => made.addColumn({...table.cols[key.column], type: key.type || table.getColumnType(key.column), ...(key.label && {label: key.label})}));
      (totals || []).forEach((total) => made.addColumn({type: total.type, label: total.label || table.getColumnLabel(total.column), id: total.id}));
      const groups = new Map();
      table.all().forEach((row) => {
        const values = by.map((key) => (key.modifier ? key.modifier(table.getValue(row, key.column)) : table.getValue(row, key.column)));
        const name = JSON.stringify(values);
        if (!groups.has(name)) groups.set(name, {values, rows: []});
        groups.get(name).rows.push(row);
      });
      groups.forEach(({values, rows}) => made.addRow([...values, ...(totals || []).map(
        (total) => total.aggregation(rows.map((row) => table.getValue(row, total.column))))]));
      made.sort(by.map((_, at) => at));
      return made;
    },
  };

  class NumberFormat {
    constructor(options) { this.options = {fractionDigits: 2, prefix: '', suffix: '', ...options}; }
    formatValue(value) {
      const {pattern, fractionDigits, prefix, suffix} = this.options;
      const percent = pattern && pattern.includes('%');
      const [, decimals] = pattern ? /\.([0#]*)/.exec(pattern) || [null, ''] : [];
      const range = pattern ? {minimumFractionDigits: (decimals.match(/0/g) || []).length, maximumFractionDigits: decimals.length}
        : {minimumFractionDigits: fractionDigits, maximumFractionDigits: fractionDigits};
      return prefix + (percent ? value * 100 : value).toLocaleString('en', range) + (percent ? '%' : '') + suffix;
    }
    format(table, at) {
      table.all().forEach((row) => {
        const value = table.getValue(row, at);
        if (typeof value === 'number') table.setFormattedValue(row, at, this.formatValue(value));
      });
    }
  }
  class PatternFormat {
    constructor(pattern) { this.pattern = pattern; }
    format(table, sources, target) {
      table.all().forEach((row) => table.setFormattedValue(row, target ?? sources[0],
        this.pattern.replace(/\{(\d+)\}/g, (_, at) => table.getFormattedValue(row, sources[at]))));
    }
  }

  const events = {
    addListener(source, name, call) { ((source.heard ||= {})[name] ||= []).push(call); return {source, name, call}; },
    addOneTimeListener(source, name, call) { return events.addListener(source, name, call); },
    trigger(source, name, told) { ((source.heard || {})[name] || []).forEach((call) => call(told)); },
    removeListener({source, name, call}) { source.heard[name] = source.heard[name].filter((one) => one !== call); },
    removeAllListeners(source) { source.heard = {}; },
  };

  window.google = {
    charts: {load: () => Promise.resolve(), safeLoad: () => Promise.resolve(), setOnLoadCallback: (call) => setTimeout(call, 0)},
    visualization: {DataTable, DataView, arrayToDataTable, data, NumberFormat, PatternFormat, events},
  };
})();
