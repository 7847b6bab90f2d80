// Tokens with their probabilities, and what else could have come in the place of one.

import {$, el, fill, percent} from "./dom.js";
import {say} from "./words.js";

// A meter with its number: how much of 1 (or of `most`) a value is.
export const meter = (value, told = percent(value)) => [
  el("span", {class: "meter", "aria-hidden": "true", "--p": Math.min(1, Math.abs(value))}),
  el("span", {class: "figure"}, told)];

// The tokens of an output as buttons; `chosen` is the place of the one that is looked at.
export function tokenButtons(tokens, probabilities, chosen, choose) {
  return tokens.map((token, i) => el("button", {
    type: "button", class: "token", "data-key": `t${i}`, "aria-pressed": String(i === chosen), onclick: () => choose(i),
  }, el("span", {class: "piece"}, token), ...(probabilities ? meter(probabilities[i]) : [])));
}

// What the output is made of, and below it what else could have come at the chosen token, where the trace tells.
export function showTokens(best, trace, prefix, chosen, handlers) {
  const probabilities = best.token_log_probabilities.map(Math.exp);
  fill($("tokens"), ...tokenButtons(best.tokens, probabilities, chosen, handlers.choose));
  $("fixed").hidden = !prefix;
  $("fixed-text").textContent = prefix && say("fixed", {prefix});
  const others = trace && trace.alternatives[chosen];
  fill($("instead"), ...(others ? [
    el("p", {class: "note", id: "instead-of"}, say("instead", {token: best.tokens[chosen]})),
    el("ol", {class: "options", "aria-labelledby": "instead-of"}, ...others.map((one, i) => el("li", {},
      option(one, i, one.token === best.tokens[chosen], () => handlers.force(one.text + trace.word_end))))),
    trace.precision === "fp32" ? null
      : el("p", {class: "note"}, say("precision", {precision: trace.precision}))] : []));
}

function option(one, i, isChosen, force) {
  const about = {type: "button", class: "option", "data-key": `o${i}`, "aria-current": isChosen ? "true" : null,
    onclick: force};
  const parts = [el("span", {class: "piece"}, one.token), ...meter(one.probability)];
  const fixed = one.text === null || one.text === undefined; // nothing can be written behind the end
  return fixed ? el("span", {class: "option", "aria-current": about["aria-current"]}, ...parts)
    : el("button", about, ...parts);
}

// What of a text the model could not read, each part in a direction of its own.
export function showUnread({unknown = [], cut = 0}) {
  const words = unknown.map((one) => `\u2068${one}\u2069`).join(" \u00b7 ");
  $("unread").textContent = [words && say("unknown", {words}),
    cut ? say("too-long", {count: cut}) : ""].join(" ");
}

// The probabilities of a classifier's labels; beside them those with some heads off.
export function showLabels(attention) {
  const {probabilities, probabilities_without: without} = attention;
  const labels = Object.keys(probabilities).sort((a, b) => probabilities[b] - probabilities[a]);
  fill($("labels"), el("ul", {class: "options still"}, ...labels.map((label) => el("li", {},
    el("span", {class: "option", "aria-current": label === attention.label ? "true" : null},
      el("span", {class: "piece"}, label), ...meter(probabilities[label]),
      without ? el("span", {class: "figure"}, say("without", {value: percent(without[label])})) : null)))));
}
