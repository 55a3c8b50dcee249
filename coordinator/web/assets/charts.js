// The curves of loss and throughput, drawn by uPlot (third_party/uplot).
import { count, find, number, rate, setText, table, tableIn, time } from "./format.js";

const HEIGHT = 210;
const ROWS = 25;  // rows of the table

/** Data from the server, one column per name. */
const columns = { x: [], step: [], generation: [], loss: [[], [], []], speed: [[], [], []] };
let points = [];  // rows as sent by the server
let marks = [];   // failures and generations, as events

function theme(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function toColumns() {
  columns.x = points.map((row) => row[0] / 1000);
  columns.step = points.map((row) => row[1]);
  columns.generation = points.map((row) => row[2]);
  columns.loss = [points.map((row) => row[3]), points.map((row) => row[5] ?? row[3]), points.map((row) => row[6] ?? row[3])];
  columns.speed = [points.map((row) => row[4]), points.map((row) => row[7] ?? row[4]), points.map((row) => row[8] ?? row[4])];
}

/** Draws failures as red lines and the start of each generation as a grey one. */
function drawMarks(plot) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.lineWidth = devicePixelRatio;
  for (const mark of marks) {
    const x = Math.round(plot.valToPos(mark.ms / 1000, "x", true)) + 0.5;
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.strokeStyle = theme(mark.severity === "error" ? "--bad" : "--line-strong");
    ctx.setLineDash(mark.severity === "error" ? [] : [4, 4]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}

/** Returns the decimals that the steps of an axis need: 2 for 0.25. */
function decimals(step) {
  return String(Number(step.toPrecision(3))).split(".")[1]?.length ?? 0;
}

/** A curve on top of its range. */
class Chart {
  constructor(name, colour, unit, fromZero) {
    Object.assign(this, { name, colour, unit, fromZero });
    this.text = fromZero ? rate : number;
    this.place = find(`${name}-chart`);
    this.reading = find(`${name}-reading`);
    this.fillTable = tableIn(find(`${name}-table`), () => this.table());
    new ResizeObserver(() => this.resize()).observe(this.place);
  }

  data() {
    return [columns.x, ...columns[this.name]];
  }

  options(width) {
    const colour = theme(this.colour);
    const axis = {
      stroke: theme("--quiet"), font: "12px system-ui, sans-serif",
      grid: { stroke: theme("--line"), width: 1 }, ticks: { show: false },
    };
    const range = (plot, least, most) => {
      if (least === null) return [0, 1];
      if (this.fromZero) return [0, Math.max(most * 1.08, 1e-9)];
      const room = Math.max((most - least) * 0.08, Math.abs(most) * 0.005, 1e-9);
      return [least - room, most + room];
    };
    return {
      width, height: HEIGHT, legend: { show: false }, padding: [10, 12, 0, 0],
      cursor: { sync: { key: "pfc" }, drag: { x: true, y: false }, points: { size: 7 }, y: false },
      scales: { x: { time: true }, y: { range } },
      axes: [
        { ...axis, space: 70, values: (plot, splits) => splits.map((split) => time(split * 1000)), size: 30, grid: { show: false } },
        { ...axis, size: 58, values: (plot, splits, axis, space, step) => splits.map((split) => split.toFixed(decimals(step))) },
      ],
      series: [
        {},
        { stroke: colour, width: 1.75, points: { show: points.length < 3, size: 5 } },
        { stroke: "transparent", points: { show: false } },
        { stroke: "transparent", points: { show: false } },
      ],
      bands: [{ series: [3, 2], fill: `color-mix(in srgb, ${colour} 20%, transparent)` }],
      hooks: { drawClear: [drawMarks], setCursor: [(plot) => this.read(plot.cursor.idx)] },
    };
  }

  draw() {
    const width = this.place.clientWidth;
    if (width === 0 || typeof uPlot === "undefined") return;
    if (points.length === 0) {
      this.plot?.destroy();  // chart of an earlier job
      this.plot = undefined;
      setText(this.reading, "");
      return setText(this.place, "No step is complete yet.");
    }
    if (!this.plot || points.length < 4) {
      this.plot?.destroy();
      this.place.textContent = "";
      this.plot = new uPlot(this.options(width), this.data(), this.place);
    } else {
      const whole = this.isWhole();
      this.plot.setData(this.data(), whole);
      if (!whole) this.plot.redraw();
    }
    this.read(this.plot.cursor.idx);
    this.fillTable();
  }

  /** Returns whether the whole range is shown. */
  isWhole() {
    const { min, max } = this.plot.scales.x;
    const data = this.plot.data[0];
    return min === null || data.length < 2 || (min <= data[0] && max >= data[data.length - 1]);
  }

  /** Shows the value under the cursor, or the newest. */
  read(index) {
    const newest = points.length - 1;
    const at = Math.min(index ?? newest, newest);  // the cursor may be beyond the current curve
    const value = columns[this.name][0][at];
    const text = `${this.text(value)}${this.unit}`;
    setText(this.reading, index === null || index === undefined ? text
      : `${text} at step ${count(columns.step[at])}, ${time(points[at][0])}`);
  }

  resize() {
    const width = this.place.clientWidth;
    if (this.plot && width > 0 && this.plot.width !== width) this.plot.setSize({ width, height: HEIGHT });
  }

  /** Redraws after a change of colours. */
  renew() {
    this.plot?.destroy();
    this.plot = undefined;
    this.draw();
  }

  table() {
    const stride = Math.max(1, Math.ceil(points.length / ROWS));
    const chosen = points.map((row, i) => i).filter((i) => (points.length - 1 - i) % stride === 0).reverse();
    const [mean, least, most] = columns[this.name];
    return table(["Time", "Step", "Mean", "Least", "Most"], chosen.map((i) =>
      [time(points[i][0]), points[i][1], this.text(mean[i]), this.text(least[i]), this.text(most[i])]));
  }
}

const charts = [new Chart("loss", "--curve-loss", "", false), new Chart("speed", "--curve-speed", " images/s", true)];
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach((chart) => chart.renew()));

/** Stores data from the server; draws nothing. */
export function addCurves({ from, rows, cut, begun_ms: begun }) {
  points.length = Math.min(points.length, from);
  points.push(...rows);
  toColumns();
  setText(find("curve-note"), cut
    ? `The curves begin at ${time(begun)}, when this coordinator took over from a killed coordinator. metrics.jsonl in the output folder has every step.`
    : "");
}

export function setMarks(events) {
  const failures = events.filter((event) => event.kind === "failure" && event.severity === "error");
  marks = [...events.filter((event) => event.kind === "generation"), ...failures];  // failures above
}

export function drawCharts() {
  charts.forEach((chart) => chart.draw());
}
