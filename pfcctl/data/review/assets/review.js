// The page of pfcctl data review. #data holds {set, against (a test set was given), sha256 (of the findings), left_out
// (a number), findings: [{line, decision, groups: {KEY: [image number]}}]}. #images-N holds the images N * 64 to
// N * 64 + 63, and may be loaded after this script runs. All texts of the data are set as text, never as HTML.
"use strict";

(() => {
const IMAGES_IN_BLOCK = 64;
const DECISIONS = { a: "accept", r: "reject" };
const KINDS = {
  wrong_label: ["Wrong label", (f) => ["This image has the label ", own(f), " but looks like ", other(f), ". Accept ",
    ...(f.action === "move" ? ["moves it to ", other(f), "."] : ["drops it: this is a person of the test set."])]],
  stranger: ["Stranger", (f) => ["This image has the label ", own(f),
    " but looks neither like this person nor like another one. Accept drops it."]],
  same_person: ["Same person", (f) => [own(f), " and ", other(f), " look like one person. Accept merges them."]],
  two_people: ["Two people", (f) => [count(f.images.length), " images of ", own(f),
    " look like a second person. Accept gives them a label of their own."]],
  duplicate: ["Duplicate", (f) => ["These images are nearly the same. ",
    ...(f.other_identity.test ? ["The second one is in the test set"]
      : f.identity.label === f.other_identity.label ? ["Both have the label ", own(f)]
      : ["Their labels are ", own(f), " and ", other(f)]), ". Accept drops the first one."]],
  leaked: ["Leaked", (f) => [own(f), " looks like ", other(f), " of the test set. Accept drops ", own(f), "."]],
};
const CAPTIONS = {
  image: () => ["The image"],
  images: (f) => [`The second person, ${count(f.images.length)} images`],
  other_image: () => ["The image to keep"],
  identity: (f) => [f.kind === "two_people" ? "Others of " : "Label ", own(f)],
  other_identity: (f) => [f.other_identity.test ? "Test set: " : "Label ", other(f)],
};
const EVIDENCE = {
  similarity_to_own: "Mean cosine to the images of its label",
  similarity_to_other: "Mean cosine to the images of the other label",
  cosine_with_nearest_other: "Cosine to the nearest other identity",
  similarity: "Mean cosine of images of both labels",
  similarity_within: "Mean cosine between the images of the second person",
  similarity_between: "Mean cosine to the other images of the label",
  cosine_of_centres: "Cosine between the centres of both",
  part_of_images_near: "Part of the images that agree with the other identity",
  images_of_identity: "Images of the label",
  images_of_other: "Images of the other label",
  cosine: "Cosine between both images",
};

const find = (id) => document.getElementById(id);
const count = (number) => number.toLocaleString("en");
function element(tag, className, ...children) {
  const made = document.createElement(tag);
  made.className = className;
  made.append(...children);
  return made;
}
const identity = (of) => element("span", "name", of.name ? `${of.name} (#${of.label})` : `#${of.label}`);
const own = (f) => identity(f.identity);
const other = (f) => identity(f.other_identity);

const data = JSON.parse(find("data").textContent);
const findings = data.findings.map((each) => JSON.parse(each.line));
const key = `pfc-review ${data.sha256} ${findings.length}`;
let decisions = data.findings.map((each) => each.decision[0] ?? "-");  // of each finding: "a", "r" or "-" (undecided)
let keeps = true;  // localStorage works
let saved = true;  // no unsaved decisions
const done = [];  // for undo: lists of [finding, earlier decision]
let visible = [];  // those that match the filter
let at = 0;  // the finding on the screen

function load() {
  try {
    const kept = localStorage.getItem(key);
    if (kept?.length === findings.length) decisions = [...kept];
    localStorage.setItem(key, decisions.join(""));
  } catch {
    keeps = false;
  }
}

/** Takes over decisions of another tab. */
function follow(event) {
  if (event.key !== key || event.newValue?.length !== findings.length) return;
  decisions = [...event.newValue];
  done.length = 0;
  filter();
  go(at);
}

function keep() {
  saved = false;
  try {
    localStorage.setItem(key, decisions.join(""));
  } catch {
    keeps = false;
  }
}

/** Applies decisions [finding, decision] as one step for undo. */
function decide(changes) {
  if (changes.length === 0) return;
  done.push(changes.map(([i]) => [i, decisions[i]]));
  for (const [i, decision] of changes) decisions[i] = decision;
  keep();
}

function decideOne(decision) {
  const next = visible[visible.indexOf(at) + 1];
  decide([[at, decision]]);
  filter();
  go(next ?? (visible.includes(at) ? at : visible.at(-1)));
}

function undo() {
  const last = done.pop();
  if (!last) return;
  for (const [i, decision] of last) decisions[i] = decision;
  keep();
  filter();
  go(visible.includes(last[0][0]) ? last[0][0] : at);
}

const isOfKind = (i) => !find("kind").value || findings[i].kind === find("kind").value;

function filter() {
  const state = find("state").value;
  visible = [...findings.keys()].filter((i) => isOfKind(i) && (!state || decisions[i] === state));
}

/** Returns the undecided findings that "accept all" would accept. */
function certain() {
  const least = find("threshold").valueAsNumber;
  return [...findings.keys()].filter((i) => decisions[i] === "-" && isOfKind(i) && findings[i].confidence >= least);
}

/** Shows this finding, or the next one (else the last) in the filter. */
function go(i) {
  at = visible.find((each) => each >= i) ?? visible.at(-1) ?? -1;
  show();
}

function step(by) {
  const next = visible[visible.indexOf(at) + by];
  if (next !== undefined) go(next);
}

function show() {
  showProgress();
  const here = at >= 0;
  find("finding").hidden = !here;
  find("nothing").hidden = here;
  for (const name of ["accept", "reject"]) find(name).disabled = !here;
  find("previous").disabled = visible.indexOf(at) <= 0;
  find("next").disabled = visible.indexOf(at) === visible.length - 1;
  if (!here) {
    find("nothing").textContent = findings.length === 0 ? "There are no findings."
      : decisions.includes("-") ? "No finding matches the filter."
      : "All findings are decided. Save the decisions.";
    return;
  }
  const f = findings[at];
  const [title, sentence] = KINDS[f.kind];
  find("title").textContent = title;
  find("confidence").textContent = `${Math.floor(100 * f.confidence + 1e-9)} % certain`;
  find("decision").textContent = { a: "accepted", r: "rejected", "-": "undecided" }[decisions[at]];
  find("decision").dataset.tone = { a: "good", r: "bad", "-": "" }[decisions[at]];
  find("position").value = visible.indexOf(at) + 1;
  find("position").max = visible.length;
  find("shown").textContent = count(visible.length);
  find("sentence").replaceChildren(...sentence(f));
  find("groups").replaceChildren(...Object.entries(data.findings[at].groups)
    .map(([name, images]) => group(f, name, images)));
  find("evidence").replaceChildren();
  const row = (term, text) => find("evidence").append(element("dt", "", term), element("dd", "", text));
  row("Confidence", f.confidence.toFixed(4));
  for (const [name, value] of Object.entries(f.evidence ?? {})) {
    row(EVIDENCE[name] ?? name, Number.isInteger(value) ? count(value) : Number(value).toFixed(3));
  }
  fill();
}

function showProgress() {
  const of = (state) => decisions.filter((each) => each === state).length;
  const [accepted, rejected] = [of("a"), of("r")];
  find("decided").textContent = `${count(accepted + rejected)} of ${count(findings.length)} decided: `
    + `${count(accepted)} accepted, ${count(rejected)} rejected`;
  find("progress").max = Math.max(findings.length, 1);
  find("progress").value = accepted + rejected;
  find("undo").disabled = done.length === 0;
  const number = certain().length;
  find("accept-all").textContent = `Accept ${count(number)}`;
  find("accept-all").disabled = number === 0;
  find("kept").textContent = keeps
    ? "This browser keeps your decisions in its local storage, on this device only. Save them to a file to apply them."
    : "This browser does not keep your decisions: they are lost when you close this page. Save them first.";
  find("kept").dataset.tone = keeps ? "" : "bad";
}

/** Makes a row of images, which fill() fills. */
function group(f, name, images) {
  const row = element("div", "images", ...images.map((number) => {
    const box = element("span", "");
    box.dataset.number = number;
    return box;
  }));
  if (images.length === 0) {
    row.append(f[name].test && !data.against ? "Name the test set with --against to see its images."
      : "A finding would change every other image.");
    row.className = "hint";
  }
  const made = element("figure", "group", element("figcaption", "", ...CAPTIONS[name](f)), row);
  if (name === "image" || name === "images") made.dataset.suspected = "";
  return made;
}

const blocks = new Map();

/** Returns [name, address], or [name, null, problem]; undefined if it is not loaded yet. */
function image(number) {
  const n = Math.floor(number / IMAGES_IN_BLOCK);
  if (!blocks.has(n)) {
    const stored = find(`images-${n}`);
    const loading = document.readyState === "loading";
    if (loading && !stored?.nextElementSibling) return undefined;
    blocks.set(n, stored ? JSON.parse(stored.textContent) : []);
    stored?.remove();
  }
  return blocks.get(n)[number % IMAGES_IN_BLOCK] ?? [`image ${number}`, null, "It is missing in this file."];
}

let waiting = 0;

/** Replaces the empty boxes on the screen by images. Waits for those that are not loaded yet. */
function fill() {
  clearTimeout(waiting);
  for (const box of document.querySelectorAll(".images > span[data-number]")) {
    const loaded = image(Number(box.dataset.number));
    if (!loaded) {
      waiting = setTimeout(fill, 50);
      return;
    }
    const [name, address, problem] = loaded;
    const made = element(address ? "img" : "span", "", ...(address ? [] : [`${name}: ${problem}`]));
    made.title = name;
    if (address) Object.assign(made, { alt: name, src: address });
    box.replaceWith(made);
    const caption = made.previousSibling ? "" : made.closest("figure").firstChild.textContent;
    find("evidence").append(element("dt", "", caption), element("dd", "", name));
  }
}

/** Returns the lines of the findings with their decisions. */
function lines() {
  return data.findings.map(({ line }, i) => {
    const decision = DECISIONS[decisions[i]];
    return `${decision ? line.replace(/\s*\}\s*$/, () => `,"decision":"${decision}"}`) : line}\n`;
  });
}

function save() {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(lines(), { type: "application/jsonl" }));
  link.download = "decisions.jsonl";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  saved = true;
}

function refilter() {
  filter();
  go(Math.max(at, 0));
}

function begin() {
  load();
  find("set").textContent = data.set;
  find("left-out").hidden = data.left_out === 0;
  find("left-out").textContent = `Not on this page and not in the saved file: ${count(data.left_out)} other `
    + "findings. A page with a higher --limit shows more.";
  const option = (value, text) => Object.assign(element("option", "", text), { value });
  const number = (kind) => count(findings.filter((f) => f.kind === kind).length);
  find("kind").append(option("", `All (${count(findings.length)})`), ...Object.keys(KINDS)
    .filter((kind) => findings.some((f) => f.kind === kind))
    .map((kind) => option(kind, `${KINDS[kind][0]} (${number(kind)})`)));
  const actions = { accept: () => decideOne("a"), reject: () => decideOne("r"), undo, previous: () => step(-1),
    next: () => step(1), save, "accept-all": () => { decide(certain().map((i) => [i, "a"])); refilter(); } };
  for (const [id, action] of Object.entries(actions)) find(id).addEventListener("click", action);
  for (const id of ["kind", "state"]) {
    find(id).addEventListener("change", () => {
      if (!find(id).matches(":focus-visible")) find(id).blur();  // after a click: keys decide again
      refilter();
    });
  }
  find("threshold").addEventListener("input", showProgress);
  find("position").addEventListener("change", () => go(visible[find("position").valueAsNumber - 1] ?? at));
  const keys = { a: "accept", r: "reject", u: "undo", ArrowLeft: "previous", ArrowRight: "next" };
  document.addEventListener("keydown", (event) => {
    const id = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    const typing = event.target.closest?.("input, select, textarea");
    if (!id || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    if (!event.repeat || id === "next" || id === "previous") find(id).click();
  });
  window.addEventListener("storage", follow);
  window.addEventListener("beforeunload", (event) => {
    if (!keeps && !saved) event.preventDefault();
  });
  refilter();
}

begin();
})();
