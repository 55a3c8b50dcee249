// The end of one worker's log, for roles that may read logs.
import { find, setText } from "./format.js";

const TAIL = 16 * 1024;       // bytes read at first
const MOST = 256 * 1024;      // characters kept
const PAUSE = 2000;           // milliseconds between two requests

let rank = 0;
let job = "";      // job whose log is shown
let place = null;  // what to read next; null: the end
let text = "";
let timer = 0;
let turn = 0;  // number of the last choice; replies to earlier ones are dropped

export function startLog() {
  find("log-controls").hidden = false;
  find("log-rank").addEventListener("change", () => choose(Number(find("log-rank").value)));
  find("log-follow").addEventListener("change", () => read());
  document.addEventListener("visibilitychange", () => read());
  choose(0);
}

export function refuseLog() {
  setText(find("log"), "Only admins can read logs (docs/page.md).");
}

export function setRanks(ranks) {
  find("log-rank").max = Math.max(0, ranks - 1);
}

function choose(wanted) {
  rank = Number.isInteger(wanted) && wanted >= 0 ? wanted : 0;
  place = null;
  text = "";
  turn += 1;
  read();
}

async function read() {
  clearTimeout(timer);
  if (document.hidden) return;
  const mine = turn;
  const { part, offset } = place ?? { part: -1, offset: TAIL };
  try {
    const reply = await fetch(new URL(`/api/log?rank=${rank}&part=${part}&offset=${offset}`, location.origin));
    const told = await reply.json();
    if (mine !== turn) return;
    if (reply.ok) add(told); else if (text === "") setText(find("log"), told.error);
  } catch {
    // The coordinator cannot be reached; the header shows it.
  }
  if (mine === turn && find("log-follow").checked) timer = setTimeout(read, PAUSE);
}

function add(told) {
  const before = job;
  job = told.job_id;
  if (before !== "" && job !== before) return choose(rank);  // none of its log is shown yet
  let more = told.text;
  if (place === null && told.offset > more.length) more = more.slice(more.indexOf("\n") + 1);
  place = { part: told.part, offset: told.offset };
  if (more === "" && text !== "") return;
  text = (text + more).slice(-MOST);
  const log = find("log");
  const follows = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
  setText(log, text === "" ? `Rank ${rank} has written nothing yet.` : text);
  if (follows || more === text) log.scrollTop = log.scrollHeight;
}
