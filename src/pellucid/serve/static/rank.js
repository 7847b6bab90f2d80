// What the page works out by itself: plain functions of what the server sent, with no element in sight.

// lp(Y) = ((5 + |Y|) / 6)^α, the length penalty of Wu et al. 2016, equation 14.
export const penalty = (length, alpha) => Math.pow((5 + length) / 6, alpha);

// The finished hypotheses by score at α, best first; of equals the one that ended first. Each as [place, score].
export function ranking(finished, alpha) {
  return finished.map((one, place) => [place, (one.log_probability ?? -Infinity) / penalty(one.length, alpha)])
    .sort((a, b) => (b[1] > a[1]) - (b[1] < a[1]) || a[0] - b[0]);
}

// The nodes from the first step to this one.
export function path(nodes, id) {
  const way = [];
  for (let node = nodes.get(id); node; node = nodes.get(node.parent)) way.unshift(node.id);
  return way;
}

// Every node of a trace by its id.
export const byId = (trace) => new Map(trace.steps.flatMap((step) => step.nodes.map((node) => [node.id, node])));

// The first place where two lists of tokens differ; −1 where they do not.
export function parting(a, b) {
  for (let i = 0; i < Math.max(a.length, b.length); i++) if (a[i] !== b[i]) return i;
  return -1;
}

// The mean of the heads: H maps of T×S to one.
export const average = (heads) => heads[0].map((row, t) =>
  row.map((_, s) => heads.reduce((sum, head) => sum + head[t][s], 0) / heads.length));

// The largest absolute value of some maps, at least a little more than 0.
export const largest = (...maps) => Math.max(1e-12, ...maps.flat(2).map(Math.abs));
