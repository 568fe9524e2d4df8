// A stand-in for Google Charts, which TFMA's viewers load from the network and which may not be hosted elsewhere:
// it draws what it is given as a plain table, in the container of the chart, with the kind of the chart as its name.
window.google = (() => {
  const plain = (cell) => (cell !== null && typeof cell === "object" ? cell.f ?? cell.v : cell);
  class DataTable {
    constructor(given) {
      const { cols = [], rows = [] } = given ?? {};
      this.columns = cols.map((column) => column.label ?? column);
      this.rows = rows.map((row) => (Array.isArray(row) ? row : row.c));
    }
    getNumberOfRows() { return this.rows.length; }
    getNumberOfColumns() { return this.columns.length; }
    getValue(row, column) { const cell = this.rows[row][column]; return cell?.v ?? cell; }
    addColumn(kind, label) { this.columns.push(label ?? kind.label ?? ""); }
    addRow(row) { this.rows.push(row); }
    addRows(rows) { this.rows.push(...rows); }
    removeRows(at, number) { this.rows.splice(at, number); }
    removeColumns(at, number) { this.columns.splice(at, number); }
    sort(by) { const [{ column }] = by; this.rows.sort((one, other) => plain(one[column]) - plain(other[column])); }
    setProperty() {}
    setProperties() {}
  }
  class DataView {
    constructor(table) { this.table = table; this.shown = null; }
    setColumns(columns) { this.shown = columns; }
    getTableRowIndex(row) { return row; }
    get columns() { return this.table.columns; }
    get rows() { return this.table.rows; }
    getNumberOfRows() { return this.table.rows.length; }
  }
  const listeners = new WeakMap();
  const listen = (target, name, call) => {
    const own = listeners.get(target) ?? {};
    (own[name] ??= []).push(call);
    listeners.set(target, own);
  };
  const tell = (target, name) => (listeners.get(target)?.[name] ?? []).forEach((call) => call({}));
  const paint = (container, kind, data) => {
    const table = document.createElement("table");
    table.setAttribute("data-chart", kind);
    for (const row of [data.columns, ...data.rows]) {
      const line = table.insertRow();
      for (const cell of row) line.insertCell().innerHTML = String(plain(cell) ?? "");
    }
    container.replaceChildren(table);
  };
  class Chart {
    constructor(container, kind) { this.container = container; this.kind = kind ?? "ColumnChart"; }
    draw(data) { paint(this.container, this.kind, data); tell(this, "ready"); }
    getSelection() { return []; }
    setSelection() {}
  }
  class ChartWrapper {
    constructor({ container }) { this.container = container; this.chart = null; }
    setChartType(kind) { this.kind = kind; this.chart = new Chart(this.container, kind); }
    getChart() { return this.chart; }
    setDataTable(data) { this.data = data; }
    setOptions() {}
    setOption() {}
    draw() { this.chart.draw(this.data); tell(this, "ready"); }
  }
  const arrayToDataTable = (rows) => new DataTable({ cols: rows[0], rows: rows.slice(1) });
  const events = { addListener: listen, addOneTimeListener: listen };
  return {
    charts: { load: () => Promise.resolve() },
    visualization: { DataTable, DataView, ColumnChart: Chart, ChartWrapper, arrayToDataTable, events },
  };
})();
