// Hosts, and the workers in their slots, as tiles.
import { bytes, count, element, find, rate, setText, table, tableIn } from "./format.js";

const MANY = 64;  // workers; with more, tiles are small

// Indexes of a worker's values in the server's array (coordinator/web/live/live_json.h).
const RANK = 0, HOST = 1, SLOT = 2, PID = 3, STATE = 4, STEP = 5, PHASE = 6, SPEED = 7, MEMORY = 8,
  GPU_MEMORY = 9, DEVICE = 10, SILENT = 11, SLOWNESS = 12;

// A failed worker may be replaced within a second. Its slot stays red for this long.
const RED = 15000;  // milliseconds

const TONES = {
  training: "good", completed: "good", stopped: "quiet", starting: "quiet", joined: "quiet",
  leaving: "warn", "no progress": "warn", failed: "bad", exited: "bad",
};

let hosts = [];
let workers = [];
let drain = null;  // called with a host's name; null: not allowed
const cards = new Map();
const failed = new Map();  // time until which a slot stays red, by host and slot
const fillTable = tableIn(find("workers-table"), workerTable);

export function setDrain(call) {
  drain = call;
  cards.clear();
  find("hosts").replaceChildren();
  showHosts(hosts, workers);
}

/** Marks the worker that was last shown for this rank as failed. */
export function noteFailure(rank) {
  const worker = workers.find((each) => each[RANK] === rank);
  if (worker) failed.set(placeOf(worker), Date.now() + RED);
}

function placeOf(worker) {
  return `${worker[SLOT]} ${hosts[worker[HOST]]?.name}`;
}

function hasJustFailed(worker) {
  return (failed.get(placeOf(worker)) ?? 0) > Date.now();
}

function toneOf(worker) {
  if (hasJustFailed(worker)) return "bad";
  const tone = TONES[worker[STATE]] ?? "quiet";
  const troubled = worker[SILENT] > 5 || worker[SLOWNESS] > 0;
  return troubled && tone !== "bad" ? "warn" : tone;
}

function stateText(worker) {
  if (hasJustFailed(worker) && TONES[worker[STATE]] !== "bad") return "failed, replaced";
  if (worker[SILENT] > 5 && TONES[worker[STATE]] !== "bad") return `silent for ${worker[SILENT]} s`;
  if (worker[SLOWNESS] > 0) return `slow (${worker[SLOWNESS]} ×)`;
  return worker[STATE];
}

function memoryText(worker) {
  const gpu = worker[GPU_MEMORY] > 0 ? `GPU ${bytes(worker[GPU_MEMORY])}` : "";
  const host = worker[MEMORY] > 0 ? bytes(worker[MEMORY]) : "";
  return gpu || host || "–";
}

export function showHosts(newHosts, newWorkers) {
  hosts = newHosts;
  workers = newWorkers;
  const list = find("hosts");
  list.classList.toggle("many", workers.length > MANY);
  const here = hosts.filter((host) => host.registered).length;
  setText(find("hosts-reading"), hosts.length === 0 ? ""
    : `${count(here)} of ${count(hosts.length)} here, ${count(workers.length)} workers`);
  const byHost = hosts.map(() => []);
  for (const worker of workers) byHost[worker[HOST]]?.push(worker);
  hosts.forEach((host, i) => list.append(showHost(host, byHost[i])));
  for (const [name, card] of cards) {
    if (hosts.some((host) => host.name === name)) continue;
    card.remove();
    cards.delete(name);
  }
  fillTable();
}

function makeCard(host) {
  const title = element("h3", "", host.name);
  const about = element("p", "about");
  const head = element("div", "host-head", title, about);
  if (drain) {
    const button = element("button", "small", "Drain");
    button.type = "button";
    button.setAttribute("aria-label", `Drain host ${host.name}`);
    button.addEventListener("click", () => drain(host.name));
    head.append(button);
  }
  const card = element("article", "host", head, element("ul", "slots"));
  card.setAttribute("aria-label", `Host ${host.name}`);
  cards.set(host.name, card);
  return card;
}

function showHost(host, mine) {
  const card = cards.get(host.name) ?? makeCard(host);
  const device = [...new Set(host.devices)].join(", ");
  const facts = host.registered ? [`${host.cores} cores`, device, host.address] : ["not registered yet"];
  setText(card.querySelector(".about"), facts.filter(Boolean).join(" · "));
  card.dataset.here = host.registered ? "yes" : "no";
  const list = card.querySelector(".slots");
  const places = Math.max(host.slots, mine.length);
  const bySlot = new Map(mine.map((worker) => [worker[SLOT], worker]));
  while (list.children.length > places) list.lastChild.remove();
  for (let slot = 0; slot < places; slot += 1) showSlot(list, slot, bySlot.get(slot));
  return card;
}

function showSlot(list, slot, worker) {
  let tile = list.children[slot];
  if (!tile) {
    tile = element("li", "slot", element("span", "slot-rank"), element("span", "slot-state"),
      element("span", "slot-memory"), element("span", "slot-more"));
    list.append(tile);
  }
  const [rank, state, memory, more] = tile.children;
  const tone = worker ? toneOf(worker) : "empty";
  if (tile.dataset.tone !== tone) tile.dataset.tone = tone;
  setText(rank, worker ? `rank ${worker[RANK]}` : `slot ${slot}`);
  setText(state, worker ? stateText(worker) : "no worker");
  setText(memory, worker ? memoryText(worker) : "");
  const detail = worker && worker[SPEED] > 0 ? `${rate(worker[SPEED])} img/s` : worker?.[PHASE] ?? "";
  setText(more, detail);
}

function workerTable() {
  return table(
    ["Rank", "Host", "Slot", "State", "Step", "Phase", "Images/s", "Memory", "GPU memory", "Device", "Process"],
    workers.map((worker) => [worker[RANK], hosts[worker[HOST]]?.name ?? "", worker[SLOT], stateText(worker),
      worker[STEP], worker[PHASE], rate(worker[SPEED]), bytes(worker[MEMORY]),
      worker[GPU_MEMORY] > 0 ? bytes(worker[GPU_MEMORY]) : "–", worker[DEVICE], worker[PID]]));
}
