// Attention: what is asked, and what is chosen and switched off.

import {ask} from "./api.js";
import {gainOf, isOff, showEffect, showHead, showHeads, strongest} from "./attention.js";
import {$, change, el, fill, percent} from "./dom.js";
import {put, state} from "./state.js";
import {showLabels, showUnread} from "./tokens.js";
import {hasOutput, isClassifier, looked, measured, ofText, run, speakUp, trying, view} from "./view.js";
import {nameOf, say} from "./words.js";

// The attention of the text and what is made of it.
export async function look() {
  if (!hasOutput()) return;
  if (!state.without.every(has)) put({without: state.without.filter(has)});
  const answer = await ask("attention", "v1/attention", {...looked(), without: state.without});
  if (!answer) return;
  Object.assign(view, {attention: answer, attentionOf: ofText()});
  showLook();
}

// Whether the run has such a head: a link may be of another, or of one that was trained anew.
function has({attention, head}) {
  const {n_heads, encoder_layers, decoder_layers} = run();
  const [, stack, layer] = /^(encoder|decoder)\.layers\.(\d+)\.\w+$/.exec(attention) || [];
  return head >= 0 && head < n_heads && layer < (stack === "encoder" ? encoder_layers : decoder_layers);
}

export function showLook() {
  const answer = view.attention;
  if (!answer) return;
  const layers = answer.attentions;
  const one = layers.find((each) => each.name === state.layer) || layers.at(-1);
  const head = state.head < one.weights.length ? state.head : -1;
  showHeads(answer, {layer: one.name, head}, state.without, measured(), (layer, at) => {
    put({layer, head: at});
    showLook();
  });
  showHead(answer, one, head);
  showSwitches(one, head);
  showEffect(answer, state.without);
  showRanked();
  if (isClassifier()) {
    showLabels(answer);
    showUnread(answer);
    speakUp(say("said-label", {label: answer.label, share: percent(answer.probabilities[answer.label])}));
  }
}

function showSwitches(one, head) {
  const off = isOff(state.without, one.name, head);
  const without = off ? state.without.filter((each) => each.attention !== one.name || each.head !== head)
    : [...state.without, {attention: one.name, head}];
  fill($("switches"),
    head < 0 ? null : el("button", {type: "button", "data-key": "switch", "aria-pressed": String(off),
      onclick: () => switchTo(without)}, say(off ? "switch-on" : "switch-off")),
    state.without.length ? el("button", {type: "button", class: "plain", "data-key": "all-on",
      onclick: () => switchTo([])}, say("all-on")) : null);
}

function switchTo(without) {
  put({without});
  return trying("look", look);
}

// Switches each head off by itself, and keeps what that changes.
export async function measureHeads() {
  if (!view.attention) return;
  const heads = view.attention.attentions.flatMap((one) =>
    [...one.weights.keys()].map((head) => ({attention: one.name, head})));
  const gains = new Map(), of = looked();
  for (const one of heads) {
    $("matter-done").textContent = say("matter-progress", {done: gains.size, count: heads.length});
    const answer = await ask("matter", "v1/attention", {...of, without: [one]});
    if (!answer) return;
    gains.set(`${one.attention} ${one.head}`, gainOf(answer));
  }
  view.gains = {of: JSON.stringify(of), each: gains};
  showLook();
}

function showRanked() {
  const gains = measured();
  if (!gains) return;
  $("matter-done").textContent = say(isClassifier() ? "matter-label" : "matter-done");
  fill($("ranked"), ...strongest(gains, 5).map(([key, gain]) => {
    const [layer, head] = key.split(" "), one = view.attention.attentions.find((each) => each.name === layer);
    return one ? el("li", {}, el("button", {type: "button", class: "plain", "data-key": key, onclick: () => {
      put({layer, head: Number(head)});
      showLook();
    }}, say("head-of", {name: nameOf(one), head: Number(head) + 1})), ` ${change(gain)} nats`) : null;
  }));
}
