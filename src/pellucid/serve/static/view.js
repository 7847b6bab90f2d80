// What the page has been answered, what it looks at, and that it is at work on something.

import {Refusal, SAVED} from "./api.js";
import {$, el, later} from "./dom.js";
import {ranking} from "./rank.js";
import {state} from "./state.js";
import {say} from "./words.js";

// The latest answers; `gains` says `of` what switching `each` head off changes, by "attention head".
export const view = {runs: [], trace: null, attention: null, contributions: null, other: null, first: null,
  answer: null, firstOf: "", attentionOf: "", contributionsOf: "", // and of which text and run some of them are
  isWhole: false, gains: SAVED && SAVED.gains ? {...SAVED.gains, each: new Map(SAVED.gains.each)} : null};

export const run = () => view.runs.find((one) => one.name === state.run) || view.runs[0];
export const isClassifier = () => run().task === "classification";
export const isReader = () => run().task === "reading";
export const peers = () => view.runs.filter((one) => one !== run() && one.task === run().task);

export const alpha = () => state.alpha ?? run().decode.length_penalty ?? 0.6;
export const beam = () => state.beam || run().decode.beam_size || 4;
export const best = () => view.trace.finished[ranking(view.trace.finished, alpha())[0][0]];
export const isOwn = () => view.trace.finished.indexOf(best()) === view.trace.order[0]; // whose alternatives we have

// A question to a run of this name, by its way of searching.
export function search(name) {
  const n_best = Math.min(run().decode.n_best || 1, beam());
  const options = {beam_size: beam(), length_penalty: alpha(), n_best, sample: false};
  return {text: state.text, run: name, prefix: state.prefix, options};
}

let working = 0; // how much has begun and is not done

// Does it, and says in that section what went wrong if something did; `refused` sees to what is there then.
export async function trying(section, act, refused = () => {}) {
  working += 1;
  $("main").setAttribute("aria-busy", "true");
  try {
    await act();
    trouble(section, "");
  } catch (error) {
    trouble(section, complaint(error));
    refused();
    if (!(error instanceof Refusal)) throw error; // the console says where it is from
  } finally {
    working -= 1;
    if (!working) $("main").setAttribute("aria-busy", "false");
  }
}

const complaint = (error) => (!(error instanceof Refusal) ? say("fault", {error})
  : ["saved", "unreachable"].includes(error.message) ? say(error.message) : error.message);

function trouble(section, text) {
  const found = section ? $(section).querySelector(":scope > .trouble") : $("trouble");
  const box = found || el("p", {class: "trouble", role: "alert"});
  if (!found && text) $(section).querySelector("h2").after(box);
  box.hidden = !text;
  if (box.textContent !== text) box.textContent = text;
}

// Whether there is something to look into: it may have gone, or be of another text, since that was asked for.
export const hasOutput = () => (isClassifier() ? Boolean(state.text.trim())
  : view.trace?.source === state.text && view.trace.run === state.run);

// What the model wrote, token by token: its text may be divided otherwise, and has no end where it was cut. A
// classifier writes nothing.
export const output = () => (isClassifier() ? {} : {output: best().token_ids});

// What is looked into: the text, the run, and what that wrote.
export const looked = () => ({text: state.text, run: state.run, ...output()});

// Which text and run an answer is of.
export const ofText = () => JSON.stringify([state.text, state.run]);

// What switching each head off changes here, if it has been measured.
export const measured = () => (view.gains?.of === JSON.stringify(looked()) ? view.gains.each : null);

// For a screen reader, once it has stood for a moment.
export const speakUp = later((text) => { $("spoken").textContent = text; }, 700);
