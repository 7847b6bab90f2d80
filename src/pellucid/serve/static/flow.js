// What is asked when something changes, and who shows what comes back.

import {showAnswer} from "./answer.js";
import {SAVED, ask, overtake} from "./api.js";
import {showCompared, showComparedLabels} from "./compare.js";
import {showContributions, showMethods} from "./contributions.js";
import {$, el, fill, later} from "./dom.js";
import {look} from "./heads.js";
import {showFinished, showLattice, showLegend} from "./lattice.js";
import {METHODS, put, state} from "./state.js";
import {showTokens, showUnread} from "./tokens.js";
import {alpha, beam, best, hasOutput, isClassifier, isOwn, isReader, looked, ofText, peers, run, search, speakUp,
  trying, view} from "./view.js";
import {languageName, say} from "./words.js";

// Everything anew, for another text, prefix, run or way of searching.
export function refresh() {
  if (!view.runs.length) return null; // once they are told, all is asked for
  overtake("first", "trace", "attention", "contributions", "other", "ours");
  unmeasure();
  $("trouble").hidden = true; // of what was asked before
  for (const id of ["search", "look", "from", "beside"]) $(id).classList.toggle("empty", !state.text.trim());
  if (!state.text.trim()) return trying("write", clear);
  if (isReader()) return trying("write", readPassages, forget);
  const beside = trying("beside", compare);
  const write = isClassifier() ? inside : () => Promise.all([first(), trace()]);
  return Promise.all([beside, trying("write", write, forget)]);
}

// Which heads mattered for the output that stood there.
function unmeasure() {
  overtake("matter");
  $("matter-done").textContent = "";
  fill($("ranked"));
}

// Of another text or run nothing is left.
export function clear() {
  for (const id of ["tokens", "instead", "labels", "lattice", "beyond", "finished", "node", "compared", "answer",
    "passages"]) fill($(id));
  Object.assign(view, {trace: null, attention: null, contributions: null, other: null, first: null, answer: null});
  blank("look");
  blank("from");
  $("fixed").hidden = true;
  return setOutput("");
}

// What is refused leaves nothing of another text or run behind; the output that the fast decoder has found stays.
function forget() {
  const {first: mine, firstOf} = view;
  if (view.trace?.source === state.text && view.trace.run === state.run) return;
  if (view.answer?.question === state.text) return;
  clear();
  if (firstOf !== JSON.stringify(search(state.run))) return;
  view.first = mine;
  showFirst();
  setOutput(mine.text);
}

// The pictures of a section, of which none is of what stands there now.
const PICTURES = {
  look: ["heads", "map-title", "cell", "map", "weights", "lines", "switches", "effect", "ranked", "labels"],
  from: ["which", "bars", "error", "maps", "gave", "shares"],
};

function blank(section) {
  const key = section === "look" ? "attention" : "contributions";
  if (view[key] && view[`${key}Of`] === ofText()) return;
  view[key] = null;
  for (const id of PICTURES[section]) fill($(id));
  showFirst();
}

// The answer of a run that reads, once it has not been typed for a moment: each asks for its passages to be read.
const readPassages = later(async () => {
  if (!state.text.trim()) return;
  view.answer = await ask("first", "answer", {question: state.text, run: state.run}) || view.answer;
  showRead();
}, 150);

export function showRead() {
  if (!isReader() || !view.answer || view.answer.question !== state.text) return;
  showAnswer(view.answer);
  showFirst();
}

// The output before anything else: this is what the fast decoder is for.
async function first() {
  const answer = await ask("first", "v1/translate", search(state.run));
  if (!answer) return;
  Object.assign(view, {first: answer.translations[0], firstOf: JSON.stringify(search(state.run))});
  showFirst();
  if (!isTraced()) setOutput(view.first.text);
}

// Whether the trace that is there is that of what is asked now.
const isTraced = () => view.trace && view.trace.run === state.run && view.trace.source === state.text
  && view.trace.prefix === state.prefix && view.trace.beam_size === beam() && view.trace.length_penalty === alpha();

// What the model could not read: a classifier says so with its attention, a reader with its answer.
export function showFirst() {
  showUnread((isReader() ? view.answer : isClassifier() ? view.attention : view.first) || {});
}

async function trace() {
  const answer = await ask("trace", "v1/trace", search(state.run));
  if (!answer) return;
  view.trace = answer;
  $("alpha").min = Math.min(answer.alphas[0], alpha());
  $("alpha").max = Math.max(answer.alphas[1], alpha());
  showSearch();
  await inside();
}

// The output, its tokens and the lattice, from the trace that is there.
export function showSearch() {
  $("alpha").value = alpha();
  $("alpha-value").textContent = alpha().toFixed(2);
  if (!view.trace || isClassifier() || isReader()) return;
  const one = best();
  setOutput(one.text);
  const at = Math.min(state.token, one.tokens.length - 1);
  showTokens(one, isOwn() ? view.trace : null, state.prefix, at, {choose, force});
  showLegend();
  showLattice(view.trace, one, view.isWhole, force);
  showMore(view.trace.steps.length - Math.max(view.trace.search_steps, one.length));
  showFinished(view.trace, alpha());
  speakUp(say("said-output", {text: one.text}));
}

// What is behind the end of the search is shown to whoever asks.
function showMore(count) {
  const toggle = () => {
    view.isWhole = !view.isWhole;
    showSearch();
  };
  fill($("beyond"), count <= 0 ? null : el("button", {type: "button", class: "plain", "data-key": "beyond",
    "aria-pressed": String(view.isWhole), onclick: toggle}, say("beyond", {count})));
}

// Another length penalty: the trace holds every order. Another winner is looked at anew, once the slider rests.
export function slide(value) {
  const before = view.trace && best().id;
  put({alpha: value});
  showSearch();
  if (!view.trace) return refresh();
  if (best().id === before) return;
  unmeasure();
  trying("write", rest);
}
const rest = later(() => (SAVED || !view.trace || isOwn() ? inside() : trying("write", trace)), 250);

const choose = (token) => {
  put({token});
  showSearch();
  showFrom();
};

// The output begins with this, and the rest is found anew.
export function force(prefix) {
  put({prefix});
  refresh();
}

function setOutput(text) {
  const box = $("output"), kept = text.startsWith(state.prefix) ? state.prefix.length : 0;
  if (box.value !== text) {
    box.value = text;
    if (document.activeElement === box) box.setSelectionRange(kept, kept);
  }
  fill($("ghost"), el("mark", {}, text.slice(0, kept)), document.createTextNode(`${text.slice(kept)}\u200b`));
}

// Attention and contributions, of an output that has stood for a moment.
const inside = later(() => Promise.all([trying("look", look, () => blank("look")),
  trying("from", explain, () => blank("from"))]), 60);

// The contributions by the chosen method.
export async function explain() {
  if (!hasOutput()) return;
  const answer = await ask("contributions", "v1/contributions", {...looked(), method: state.method});
  if (!answer) return;
  Object.assign(view, {contributions: answer, contributionsOf: ofText()});
  showFrom();
}

export function showFrom() {
  showMethods(state.method, (method) => {
    put({method});
    trying("from", explain);
  });
  if (view.contributions) showContributions(view.contributions, state.token, choose);
}

// For a page to be saved: what it begins with, which may have been asked long ago, or with another length penalty; and
// the other methods, so that it can show them.
export async function askAll() {
  await ask("saving", "v1/runs");
  if (isReader() || !state.text.trim()) return;
  for (const path of isClassifier() ? [] : ["v1/translate", "v1/trace"]) {
    await trying("write", () => ask("saving", path, search(state.run)));
  }
  if (!isClassifier() && !view.trace) return; // it was refused, and nothing was looked into
  await trying("look", () => ask("saving", "v1/attention", {...looked(), without: state.without}));
  await trying("beside", compare);
  for (const method of METHODS) {
    await trying("from", () => ask("saving", "v1/contributions", {...looked(), method}));
  }
}

// The other run on the same text.
export async function compare() {
  const other = peers().find((one) => one.name === state.other) || peers()[0];
  if (!other) return;
  const path = isClassifier() ? "v1/attention" : "v1/trace";
  const asked = isClassifier() ? (name) => ({text: state.text, run: name, without: []}) : search;
  const theirs = await ask("other", path, asked(other.name));
  const ours = theirs && await ask("ours", path, asked(state.run));
  if (!ours) return;
  view.other = {names: [run().name, other.name], answers: [ours, theirs]};
  showBeside();
}

export function showBeside() {
  if (!view.other) return;
  (isClassifier() ? showComparedLabels : showCompared)(view.other.names, view.other.answers);
}

// The names of things, and which parts there are for a run of this kind.
export function showFrame() {
  const one = run();
  for (const part of document.querySelectorAll("[data-for]")) {
    part.hidden = !part.dataset.for.split(" ").includes(one.task);
  }
  $("beside").hidden = isReader() || peers().length === 0;
  const choices = (runs, chosen) => runs.map((each) => el("option", {selected: each.name === chosen}, each.name));
  fill($("run"), ...choices(view.runs, one.name));
  fill($("other"), ...choices(peers(), state.other));
  const lead = {classification: "lead-label", reading: "lead-answer"}[one.task] || "lead";
  $("lead").textContent = say(SAVED ? "lead-saved" : lead, {run: one.name});
  const label = (key, code) => (code ? say(`${key}-in`, {language: languageName(code)}) : say(key));
  $("text-label").textContent = isReader() ? say("question") : label("text", one.source_language);
  $("output-label").textContent = label("output", one.target_language);
  $("beam").value = beam();
  document.title = `${one.name} \u00b7 pellucid`;
}
