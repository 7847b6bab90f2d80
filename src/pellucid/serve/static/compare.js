// Two runs on the same text: where they part, and by how much.

import {$, change, el, fill, number, percent, table} from "./dom.js";
import {parting} from "./rank.js";
import {meter} from "./tokens.js";
import {say} from "./words.js";

// The best outputs of two traces beside each other.
export function showCompared(names, traces) {
  const best = traces.map((trace) => trace.finished[trace.order[0]]);
  const at = parting(best[0].tokens, best[1].tokens);
  fill($("compared"), ...names.map((name, i) => el("div", {class: "sheet one"}, el("h3", {}, name),
    el("p", {class: "tokens"}, ...best[i].tokens.map((token, t) => el("span", {
      class: at >= 0 && t >= at ? (t === at ? "token parts" : "token after") : "token"},
    el("span", {class: "piece"}, token), ...meter(Math.exp(best[i].token_log_probabilities[t]))))),
    el("p", {class: "soft"}, say("whole", {total: number(best[i].log_probability), score: number(best[i].score, 3)})))),
  el("p", {class: "verdict"}, at < 0 ? say("agree", {nats: change(best[0].log_probability - best[1].log_probability)})
    : say("part", {place: at + 1, difference: change(best[0].log_probability - best[1].log_probability)})),
  at < 0 ? null : el("ul", {class: "plainly"}, ...names.map((name, i) => el("li", {}, say("gives", {name,
    mine: best[i].tokens[at] ?? say("nothing"), p: chance(traces[i], best[i], at, best[i].tokens[at]),
    theirs: best[1 - i].tokens[at] ?? say("nothing"), q: chance(traces[i], best[i], at, best[1 - i].tokens[at])})))));
}

function chance(trace, best, at, token) {
  const found = (trace.alternatives[at] || []).find((one) => one.token === token);
  if (found) return percent(found.probability);
  const least = Math.min(...(trace.alternatives[at] || []).map((one) => one.probability)); // less than these
  return Number.isFinite(least) ? `<\u202f${percent(least)}`.replace("<\u202f<", "<") : "\u2013";
}

// The same for two classifiers, with the labels of both.
export function showComparedLabels(names, answers) {
  const labels = [...new Set(answers.flatMap((one) => Object.keys(one.probabilities)))];
  fill($("compared"), table(say("beside"), [...names, say("difference")], labels, labels.map((label) => {
    const both = answers.map((one) => one.probabilities[label]), none = "\u2013";
    return [...both.map((p) => (p === undefined ? none : percent(p))),
      both.includes(undefined) ? none : change(100 * (both[0] - both[1]), 1)];
  })));
}
