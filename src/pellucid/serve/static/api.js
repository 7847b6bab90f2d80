// Questions to the server, each asked once; a page that was saved answers out of what it was saved with.

const BLOCK = document.getElementById("saved");
export const SAVED = BLOCK ? JSON.parse(BLOCK.textContent) : null; // {state, answers} in a saved page
const answers = new Map(SAVED ? SAVED.answers : []); // "path body" → answer, the latest last
const KEPT = 400;
const asking = new Map(); // topic → what aborts its latest question

// Of what the server, or the saved page, said no to.
export class Refusal extends Error {}

// The answer to a question; null where a newer one on the same topic overtook it.
export async function ask(topic, path, body = null) {
  overtake(topic);
  const key = `${path} ${JSON.stringify(body)}`;
  if (answers.has(key)) return keep(key, answers.get(key));
  if (SAVED) throw new Refusal("saved");
  const controller = new AbortController();
  asking.set(topic, controller);
  try {
    const answer = await patiently(path, {signal: controller.signal, ...(body && {
      method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(body)})});
    return topic === "matter" ? answer : keep(key, answer); // those are many, and large
  } catch (error) {
    if (controller.signal.aborted) return null;
    throw error instanceof Refusal ? error : new Refusal("unreachable");
  } finally {
    if (asking.get(topic) === controller) asking.delete(topic);
  }
}

// An answer, asked for again a few times where the server has too much to do.
async function patiently(path, request) {
  for (let left = 4; ; left--) {
    const response = await fetch(path, request), answer = await response.json();
    if (response.ok) return answer;
    if (response.status !== 429 || !left) throw new Refusal(answer.error || response.statusText);
    await new Promise((go) => setTimeout(go, 1000));
    request.signal.throwIfAborted();
  }
}

// Nobody waits for the answers of these topics any more.
export function overtake(...topics) {
  for (const topic of topics) {
    asking.get(topic)?.abort();
    asking.delete(topic);
  }
}

function keep(key, answer) {
  answers.delete(key);
  answers.set(key, answer);
  if (answers.size > KEPT) answers.delete(answers.keys().next().value);
  return answer;
}

// The answers on these texts, and what is asked of none: for a page to save.
export const remembered = (text) => [...answers].filter(([key]) => {
  const body = JSON.parse(key.slice(key.indexOf(" ") + 1));
  return body === null || (body.text ?? body.question) === text;
});
