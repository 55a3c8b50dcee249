// The time of a step by phase: one bar per rank, one colour per phase.
import { count, element, find, seconds, setText, table, tableIn } from "./format.js";

// In the order of a step. Phases that wait for others have distinct colours.
const KNOWN = ["data_wait", "images", "forward", "teacher", "all_gather", "head", "reduce_scatter", "backward",
  "gradient_wait", "optimizer", "evaluate", "checkpoint", "snapshot", "log", "report", "write_model"];

let told = { names: [], rows: [], of: 0 };
const fillTable = tableIn(find("phases-table"), phaseTable);

function colourClass(name) {
  return `phase-${KNOWN.includes(name) ? name : "other"}`;
}

/** Returns the indexes of the phases in the order of a step, without very short ones. */
function shownPhases() {
  const place = (i) => { const at = KNOWN.indexOf(told.names[i]); return at < 0 ? KNOWN.length : at; };
  const most = Math.max(0, ...told.rows.map(([, row]) => row.reduce((sum, each) => sum + each, 0)));
  return told.names.map((name, i) => i)
    .filter((i) => told.rows.some(([, row]) => (row[i] ?? 0) > most / 500))
    .sort((a, b) => place(a) - place(b));
}

export function showPhases(phases) {
  told = phases;
  const shown = shownPhases();
  const sums = told.rows.map(([, row]) => row.reduce((sum, each) => sum + each, 0));
  const longest = Math.max(...sums, 1e-12);
  setText(find("phases-reading"), told.rows.length === 0 ? "" : told.of > told.rows.length
    ? `the ${told.rows.length} of ${count(told.of)} ranks whose own work takes longest` : `up to ${seconds(longest)}`);
  showLegend(shown);
  const list = find("phases");
  while (list.children.length > told.rows.length) list.lastChild.remove();
  told.rows.forEach(([rank, row], i) => showBar(list, i, rank, row, shown, sums[i], longest));
  if (told.rows.length === 0) list.textContent = "No step is complete yet.";
  else if (list.firstChild?.nodeType === Node.TEXT_NODE) list.firstChild.remove();
  fillTable();
}

function showLegend(shown) {
  const list = find("phases-legend");
  const names = shown.map((i) => told.names[i]);
  if (list.dataset.names === names.join()) return;
  list.dataset.names = names.join();
  list.replaceChildren(...names.map((name) => element("li", "", element("span", `swatch ${colourClass(name)}`), name)));
}

function showBar(list, i, rank, row, shown, sum, longest) {
  let bar = list.children[i];
  if (!bar) {
    bar = element("div", "bar", element("span", "bar-rank"), element("span", "bar-track"), element("span", "bar-sum"));
    list.append(bar);
  }
  setText(bar.children[0], String(rank));
  setText(bar.children[2], seconds(sum));
  const track = bar.children[1];
  while (track.children.length > shown.length) track.lastChild.remove();
  shown.forEach((phase, k) => {
    const part = track.children[k] ?? track.appendChild(element("span"));
    part.className = colourClass(told.names[phase]);
    part.style.width = `${(100 * (row[phase] ?? 0)) / longest}%`;
    part.title = `${told.names[phase]}: ${seconds(row[phase] ?? 0)}`;
  });
}

function phaseTable() {
  const shown = shownPhases();
  return table(["Rank", ...shown.map((i) => told.names[i])],
    told.rows.map(([rank, row]) => [rank, ...shown.map((i) => seconds(row[i] ?? 0))]));
}
