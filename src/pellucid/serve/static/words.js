// Everything the page says, in English and in Chinese.

const WORDS = {
  skip: ["Skip to the content", "跳到正文"],
  title: ["A Transformer you can see through", "看得透的 Transformer"],
  lead: ["Type, and watch {run} at work: its tokens, its search, its attention, and what each word contributed. All " +
    "of it is computed on this machine, as you type.",
    "输入文字，看 {run} 如何工作：词元、搜索、注意力，以及每个词的贡献。一切都在本机上、随输入当场算出。"],
  "lead-label": ["Type, and watch {run} at work: the label that it gives, its attention, and what each word " +
    "contributed. All of it is computed on this machine, as you type.",
    "输入文字，看 {run} 如何工作：它给出的标签、注意力，以及每个词的贡献。一切都在本机上、随输入当场算出。"],
  "lead-answer": ["Ask, and {run} looks for the answer in the documents of its index. All of it is computed on this " +
    "machine, as you type.",
    "提问，{run} 就在索引的文档里寻找回答。一切都在本机上、随输入当场算出。"],
  "lead-saved": ["A page saved from {run}. It replays what was on it; there is no model behind it to ask anything " +
    "else.",
    "这是从 {run} 保存的页面：重放当时页上的内容，背后没有模型可供另问。"],
  run: ["Run", "运行"],
  save: ["Save this page", "保存本页"],
  "to-language": ["中文", "English"],
  dark: ["Dark", "深色"],
  light: ["Light", "浅色"],
  footer: ["pellucid · nothing on this page is fetched from elsewhere, and nothing you type leaves the server it " +
    "came from.",
    "pellucid · 本页不从别处加载任何东西，你输入的内容也不会离开提供本页的服务器。"],
  unreachable: ["The server does not answer. Is it still running?", "服务器没有回应。它还在运行吗？"],
  saved: ["This page was saved: it replays what was on it, and this was not. Run pellucid play to ask for more.",
    "这是保存下来的页面，只能重放当时的内容，这一项不在其中。要问别的，请运行 pellucid play。"],
  fault: ["This page has a fault of its own: {error}", "这是页面自身的错误：{error}"],
  "no-runs": ["The server has no run to show.", "服务器上没有可看的运行。"],

  write: ["Write", "输入"],
  text: ["Text", "原文"],
  "text-in": ["Text · {language}", "原文 · {language}"],
  hint: ["Type a sentence …", "请输入一句话……"],
  output: ["Output", "输出"],
  "output-in": ["Output · {language}", "输出 · {language}"],
  "output-help": ["Write in the output, in the middle of a word if you like: what is before the cursor stays, and " +
    "the rest is found anew.",
    "可以直接在输出里写，写在词的中间也行：光标之前的内容保留，其余重新寻找。"],
  unknown: ["The model does not know {words}, and reads ‹unknown› in its place.", "模型不认识 {words}，把它读作 ‹unknown›。"],
  "too-long": ["The text is too long for the model: its last {count} tokens are left out.",
    "文本对模型来说太长：最后 {count} 个词元被略去。"],
  fixed: ["Kept as written: “{prefix}”", "保留不变：“{prefix}”"],
  free: ["Let the model begin by itself", "让模型从头自己写"],
  tokens: ["Tokens and their probabilities", "词元及其概率"],
  "tokens-help": ["The model writes one token at a time; each number is the probability it gave that token, after " +
    "all tokens before it. Choose one to see what else could have come.",
    "模型一次写一个词元；每个数字是在前面所有词元之后，模型给这个词元的概率。选一个，看看本来还可能是什么。"],
  instead: ["In the place of “{token}” could have come (choose one, and the rest is found anew):",
    "在“{token}”的位置上还可能是（选一个，其余重新寻找）："],
  precision: ["The search is the fast decoder's, in {precision}; what else could have come is computed in fp32, so " +
    "that the last digit may differ.",
    "搜索由快速解码器以 {precision} 进行；其他可能以 fp32 计算，末位数字可能不同。"],
  probabilities: ["Labels and their probabilities", "标签及其概率"],
  "probabilities-help": ["The softmax of the last layer: what the model holds each label to be worth. They sum to 1.",
    "最后一层的 softmax：模型认为每个标签有多大可能，总和为 1。"],
  "said-output": ["Output: {text}", "输出：{text}"],
  "said-label": ["Label: {label}, {share}", "标签：{label}，{share}"],
  nothing: ["(nothing)", "（空）"],
  question: ["Question", "问题"],
  answer: ["Answer", "回答"],
  "answer-help": ["A piece of a document, never written by the model. Its probability is the share of its start " +
    "times the share of its end, among all places in all passages below; it may be wrong.",
    "回答是文档里的一段，绝不由模型写出。概率是其起点所占份额乘以终点所占份额，在下面所有段落的所有位置之中；它可能是错的。"],
  "answer-of": ["in {place}, {share}", "见 {place}，{share}"],
  "no-answer": ["The passages do not tell ({share})", "这些段落里没有回答（{share}）"],
  "no-passage": ["No passage has a word or character of the question.", "没有段落含有问题中的词或字。"],
  passages: ["What was read", "读了什么"],
  "passages-help": ["The passages that fit the question best by BM25, the best first: a rare word weighs more than a " +
    "frequent one. What the question was found by is underlined, the answer is marked.",
    "按 BM25 与问题最相配的段落，最好的在前：罕见词比常见词更重。据以找到的词加下划线，回答加底色。"],
  "passage-of": ["{place} {title} · score {score}", "{place} {title} · 得分 {score}"],

  search: ["The search", "搜索"],
  "search-help": ["Beam search, as it went: each column is a step, and its best continuations stand in it by rank. " +
    "Those that are kept go on; a pruned one says by how much it lost. Choose a hypothesis to have the output begin " +
    "with it.",
    "束搜索的经过：每一列是一步，各种延续按名次排列。留下的继续，被剪掉的标明差了多少。选一个假设，输出就以它开头。"],
  "paper-search": ["Attention Is All You Need, § 6.1", "Attention Is All You Need，第 6.1 节"],
  beam: ["Beam width", "束宽"],
  lattice: ["The search, step by step", "逐步的搜索"],
  "lattice-of": ["{steps} steps of a beam search of width {beam}", "束宽为 {beam} 的束搜索，共 {steps} 步"],
  start: ["start", "起点"],
  "state-kept": ["kept", "留下"],
  "state-finished": ["finished", "结束"],
  "state-pruned": ["pruned", "剪掉"],
  "search-end": ["here the search is over; beyond it, only for another α", "搜索到此结束；其后只为别的 α 而走"],
  beyond: ["Show the {count} steps that only another α needs", "显示只为别的 α 而走的 {count} 步"],
  "pruned-by": ["pruned: {nats} nats behind the last one kept", "剪掉：比最后一个留下的少 {nats} 奈特"],
  node: ["“{token}”, rank {rank}, probability {probability}, log P so far {total}, {fate}",
    "“{token}”，第 {rank} 名，概率 {probability}，至此 log P {total}，{fate}"],
  "node-hint": ["Point at a hypothesis, or walk with the arrow keys: left is where it came from, right is its best " +
    "continuation.",
    "指向一个假设，或用方向键走动：左是来处，右是它最好的延续。"],
  finished: ["What ended, by score", "已结束的假设，按得分"],
  "alpha-help": ["score = log P ÷ ((5 + |Y|) ÷ 6)^α. At 0 the most probable output wins, and short ones are " +
    "favoured; the larger α, the better for long ones. Move it: this is the order that a fresh search would give.",
    "得分 = log P ÷ ((5 + |Y|) ÷ 6)^α。α 为 0 时概率最大者胜，偏向短的输出；α 越大，对长的越有利。移动滑块：这就是重新搜索会给出的次序。"],
  "paper-alpha": ["Wu et al. 2016, eq. 14", "Wu 等 2016，式 14"],
  alpha: ["Length penalty α", "长度惩罚 α"],
  rank: ["Rank", "名次"],
  length: ["|Y|", "|Y|"],
  "log-p": ["log P", "log P"],
  score: ["Score", "得分"],
  cut: ["(cut at the maximum length)", "（到最大长度截断）"],
  more: ["… and {count} more", "……还有 {count} 个"],

  attention: ["Attention", "注意力"],
  "attention-help": ["Every token is made from others, and the weights say from which and how much: a row is a token " +
    "that looks, and sums to 1. Each small map is a head.",
    "每个词元由其他词元合成，权重说明取自哪些、各取多少：一行是一个在看的词元，总和为 1。每张小图是一个头。"],
  "paper-attention": ["§ 3.2", "第 3.2 节"],
  heads: ["Heads", "注意力头"],
  layer: ["{stack} layer {layer}, {kind}", "{stack}第 {layer} 层，{kind}"],
  encoder: ["encoder", "编码器"],
  decoder: ["decoder", "解码器"],
  self: ["self-attention", "自注意力"],
  cross: ["cross-attention", "交叉注意力"],
  mean: ["mean", "平均"],
  "mean-of": ["{name}, mean of {heads} heads", "{name}，{heads} 个头的平均"],
  off: ["off", "已关"],
  "switch-off": ["Switch this head off", "关掉这个头"],
  "switch-on": ["Switch it on again", "重新打开"],
  "all-on": ["Switch all on", "全部打开"],
  matter: ["Which heads matter?", "哪些头要紧？"],
  "matter-progress": ["{done} of {count} switched off and on", "已逐个关开 {done}/{count}"],
  "matter-done": ["By what happens to the log-probability of this output when a head is switched off:",
    "按关掉该头后此输出的对数概率如何变化："],
  "matter-label": ["By what happens to the log-probability of this label when a head is switched off:",
    "按关掉该头后此标签的对数概率如何变化："],
  "head-of": ["{name}, head {head}", "{name}，第 {head} 头"],
  "switched-off": ["Switched off –", "已关掉："],
  "as-is": ["As it is:", "原样："],
  then: ["Without:", "关掉后："],
  cost: ["log P of the first output is then", "原输出的 log P 变为"],
  same: ["the same", "相同"],
  without: ["without those heads {value}", "关掉这些头后 {value}"],
  queries: ["Tokens that look", "在看的词元"],
  query: ["{token} looks at {keys}", "{token} 看向 {keys}"],
  "look-hint": ["Point at a token on the left, or at a cell of the map.", "指向左边的词元，或图中的一格。"],
  looks: ["“{row}” takes {share} from “{column}”", "“{row}”从“{column}”取 {share}"],
  map: ["Map of the weights, {rows} rows and {columns} columns; the numbers are in the table below",
    "权重图，{rows} 行 {columns} 列；数字见下表"],
  "as-numbers": ["As numbers", "看数字"],
  weights: ["Attention weights", "注意力权重"],

  contributions: ["Contributions", "贡献"],
  "contributions-help": ["What spoke for a token or a label, and what against it, in nats of its log-probability. A " +
    "model with random weights stands beside it, each drawn to its own largest: where the two look alike, the " +
    "picture says little about the model.",
    "什么支持、什么反对这个词元或标签，以其对数概率的奈特计。旁边是随机权重的模型，各按自己的最大值绘制：两者若相像，这张图就说明不了模型什么。"],
  method: ["Method", "方法"],
  gradient_x_input: ["gradient × input", "梯度 × 输入"],
  integrated_gradients: ["integrated gradients", "积分梯度"],
  leave_one_out: ["leave one out", "逐一去除"],
  "gradient_x_input-help": ["The slope of the log-probability along each token's embedding: one backward pass, true " +
    "only for small changes.",
    "对数概率沿每个词元嵌入的斜率：只需一次反向传播，只对微小变化成立。"],
  "integrated_gradients-help": ["The slope, averaged on the way from nothing to the embedding: it should add up to " +
    "the whole difference, and the error says how nearly it does.",
    "从空白到嵌入一路上斜率的平均：应当加总为全部差值，误差说明差多少。"],
  "leave_one_out-help": ["Each token is taken out, and the log-probability computed again: the slowest, and the " +
    "judge of the others.",
    "把每个词元去掉，重新计算对数概率：最慢，也是其他方法的裁判。"],
  "paper-method": ["where it comes from", "出处"],
  "paper-random": ["why the random model", "为何要随机模型"],
  "paper-share": ["source and prefix", "原文与前文"],
  which: ["Token that is explained", "要解释的词元"],
  "this-model": ["This model", "此模型"],
  "random-model": ["Random weights", "随机权重"],
  "of-source": ["from the source", "来自原文"],
  "of-prefix": ["from what was written before", "来自已写出的部分"],
  "error-of": ["They sum to {sum}, and should to {explained}: error {error} ({share})",
    "合计 {sum}，应为 {explained}：误差 {error}（{share}）"],
  "no-error": ["They sum to {sum}; the whole difference is {explained}. This method does not claim that they agree.",
    "合计 {sum}，全部差值为 {explained}；此方法不保证两者相等。"],
  "share-of": ["{share} of it from the source", "其中 {share} 来自原文"],
  against: ["against", "反对"],
  for: ["for", "支持"],
  "map-hint": ["Point at a cell of a map.", "指向图中的一格。"],
  gave: ["“{from}” gave “{to}” {value} nats", "“{from}”给“{to}” {value} 奈特"],
  "contributions-map": ["Map of the contributions, a row for each token written; the numbers are in the table below",
    "贡献图，每行一个写出的词元；数字见下表"],
  "random-map": ["The same map of a model with random weights", "随机权重模型的同一张图"],
  sum: ["sum", "合计"],
  explained: ["to explain", "应解释"],
  error: ["error", "误差"],
  share: ["source", "原文占比"],

  beside: ["Two runs side by side", "两个运行并排看"],
  "beside-help": ["The same text, another run: where the outputs part, and how much each holds of the other's word.",
    "同一段文字，另一个运行：输出从哪里分开，各自对对方的词有多少把握。"],
  "other-run": ["Beside", "对照"],
  whole: ["log P {total}, score {score}", "log P {total}，得分 {score}"],
  agree: ["Both write the same; log P of the first less that of the second: {nats} nats.",
    "两者写得一样；前者的 log P 减后者：{nats} 奈特。"],
  part: ["They part at token {place}; log P of the first output less that of the second: {difference} nats.",
    "从第 {place} 个词元起分开；前者输出的 log P 减后者：{difference} 奈特。"],
  gives: ["There {name} gives “{mine}” {p}, and the other's “{theirs}” {q}.",
    "在此处，{name} 给“{mine}” {p}，给对方的“{theirs}” {q}。"],
  difference: ["Difference (points)", "相差（百分点）"],
};

const here = document.documentElement;
export const language = () => (here.lang.startsWith("zh") ? "zh" : "en");

// A sentence, its names filled in.
export const say = (key, values = {}) =>
  WORDS[key][language() === "zh" ? 1 : 0].replace(/\{(\w+)\}/g, (_, name) => values[name]);

// Every element of the document that says something says it in this language.
export function speak(to) {
  here.lang = to === "zh" ? "zh-CN" : "en";
  for (const one of document.querySelectorAll("[data-word]")) one.textContent = say(one.dataset.word);
  for (const one of document.querySelectorAll("[data-label]")) one.setAttribute("aria-label", say(one.dataset.label));
  for (const one of document.querySelectorAll("[data-hint]")) one.setAttribute("placeholder", say(one.dataset.hint));
}

// What an attention is called: as the server has it, or by its place in the model.
export function nameOf(attention) {
  const found = attention.name.match(/^(encoder|decoder)\.layers\.(\d+)\.(self|cross)_attention$/);
  if (!found) return attention.spoken;
  return say("layer", {stack: say(found[1]), layer: Number(found[2]) + 1, kind: say(found[3])});
}

// A language by its code, in the language of the page.
export function languageName(code) {
  try {
    return new Intl.DisplayNames([here.lang], {type: "language"}).of(code);
  } catch {
    return code;
  }
}
