// What each token of the source, and each that was already written, contributed to the choice of a token.

import {$, change, el, fill, number, percent, table} from "./dom.js";
import {bigMap, scale} from "./attention.js";
import {largest} from "./rank.js";
import {tokenButtons} from "./tokens.js";
import {say} from "./words.js";

const PAPERS = {
  gradient_x_input: "https://arxiv.org/abs/1605.01713",
  integrated_gradients: "https://arxiv.org/abs/1703.01365",
  leave_one_out: "https://arxiv.org/abs/1612.08220",
};
const FROZEN = "https://arxiv.org/abs/1810.03292", SHARES = "https://arxiv.org/abs/2205.11631";

// The three methods, of which one is used, and what it does.
export function showMethods(chosen, choose) {
  const box = $("methods");
  fill(box, box.firstElementChild, ...Object.keys(PAPERS).map((method) => el("label", {class: "choice"},
    el("input", {type: "radio", name: "method", value: method, checked: method === chosen, "data-key": method,
      onchange: () => choose(method)}), say(method))));
  const link = (to, text) => el("a", {href: to}, text);
  const dot = () => document.createTextNode(" \u00b7 ");
  fill($("method-help"), el("span", {}, `${say(`${chosen}-help`)} `), link(PAPERS[chosen], say("paper-method")), dot(),
    link(FROZEN, say("paper-random")), dot(), link(SHARES, say("paper-share")));
}

// All of it for one token: bars, the error, the maps of all tokens, the table.
export function showContributions(answer, place, choose) {
  const written = answer.written.length ? answer.written : [answer.label];
  const at = Math.min(place, written.length - 1);
  fill($("which"), ...tokenButtons(written, null, at, choose));
  const columns = [...answer.source_tokens, ...answer.read];
  const own = joined(answer.source, answer.prefix), random = joined(answer.random_source, answer.random_prefix);
  const until = (row) => row.slice(0, answer.source_tokens.length + (answer.read.length ? at + 1 : 0));
  const own_row = until(own[at]), random_row = until(random[at]);
  fill($("bars"), bars(say("this-model"), answer, own_row, largest([own_row])),
    bars(say("random-model"), answer, random_row, largest([random_row])));
  showError(answer, at, sumOf(own[at]));
  const gave = (map, t, s) => say("gave", {from: columns[s], to: written[t], value: change(map[t][s], 3)});
  $("gave").textContent = say("map-hint");
  const tell = (map) => (t, s) => { $("gave").textContent = gave(map, t, s); };
  const room = $("maps").clientWidth / (innerWidth < 832 ? 1 : 2.1); // 52 rem: one below the other, or side by side
  const titled = (text, map, about) => el("div", {}, el("h3", {}, text),
    bigMap(room, written, columns, map, largest(map), about, tell(map)),
    scale(`${say("against")} ${change(-largest(map), 3)}`, `${change(largest(map), 3)} ${say("for")}`, "both"));
  fill($("maps"), titled(say("this-model"), own, say("contributions-map")),
    titled(say("random-model"), random, say("random-map")));
  fill($("shares"), table(say("contributions"), [...columns, say("sum"), say("explained"), say("error"), say("share")],
    written, own.map((row, t) => [...row.map((value) => number(value, 3)), number(sumOf(row), 3),
      number(answer.explained[t], 3), answer.error[t] === null ? "\u2013" : number(answer.error[t], 4),
      percent(answer.share_of_source[t])])));
}

const joined = (source, prefix) => source.map((row, t) => [...row, ...(prefix[t] || [])]);
const sumOf = (row) => row.reduce((total, value) => total + value, 0);

function bars(title, answer, row, most) {
  const count = answer.source_tokens.length;
  const names = [...answer.source_tokens, ...answer.read];
  const digits = most < 0.1 ? 4 : most < 1 ? 3 : 2;
  const list = (from, to) => el("ul", {class: "signed"}, ...row.slice(from, to).map((value, i) => el("li", {},
    el("span", {class: "piece"}, names[from + i]),
    el("span", {class: value < 0 ? "bar less" : "bar", "aria-hidden": "true", "--p": Math.abs(value) / most}),
    el("span", {class: "figure"}, change(value, digits)))));
  return el("div", {}, el("h3", {}, title), el("h4", {}, say("of-source")), list(0, count),
    ...(row.length > count ? [el("h4", {}, say("of-prefix")), list(count, row.length)] : []));
}

function showError(answer, at, total) {
  const error = answer.error[at];
  fill($("error"), el("span", {}, error === null
    ? say("no-error", {sum: number(total, 3), explained: number(answer.explained[at], 3)})
    : say("error-of", {sum: number(total, 3), explained: number(answer.explained[at], 3), error: change(error, 4),
      share: percent(Math.abs(error) / Math.max(1e-12, Math.abs(answer.explained[at])))})),
  answer.read.length ? el("span", {}, ` \u00b7 ${say("share-of", {share: percent(answer.share_of_source[at])})}`)
    : null);
}
