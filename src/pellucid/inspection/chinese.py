"""What an inspection says, in Chinese: each sentence once, by its English. Braces are filled in by `str.format`."""

import re

from pellucid.language import language


def told(sentence: str) -> str:
    """The sentence in the reader's language; values are filled in afterwards."""
    return CHINESE.get(sentence, sentence) if language() == "zh" else sentence


def named(name: str) -> str:
    """A part of the model, as `record.spoken` says it, in the reader's language."""
    if language() == "en":
        return name
    name = re.sub(r"(?<!classification )layer (\d+)", r"第 \1 层", name)
    for english, chinese in PARTS.items():
        name = name.replace(english, chinese)
    name = re.sub(r"\s*,\s*", "，", name)
    return re.sub(r"(?<=[\u4e00-\u9fff]) (?=[\u4e00-\u9fff])", "", name)


PARTS = {  # longer ones first, where one is in another
    "source embedding": "源嵌入", "target embedding": "目标嵌入", "embedding": "嵌入", "closing norm": "末端归一化",
    "output projection": "输出投影", "classification layer ": "分类层 ", "encoder": "编码器", "decoder": "解码器",
    "self-attention": "自注意力", "cross-attention": "交叉注意力", "feed-forward": "前馈层", "function": "函数",
    "position": "位置", "norms": "归一化", "pooling": "池化", "logits": "对数几率",
}

CHINESE = {
    # inspect.py
    "Inside {run}": "{run} 的内部",
    "The sentences are from the {split} data.": "句子取自{split}数据。",
    "train": "训练", "validation": "验证", "test": "测试",
    "No font on the machine that drew the PNG files has {characters}, so they are boxes there; on this page they are "
    "text, in the fonts of its reader.":
        "绘制 PNG 文件的机器上没有任何字体含有 {characters}，它们在那些文件中显示为方框；"
        "在本页上它们是文字，用读者自己的字体显示。",
    "sentence {number} of {count}": "第 {number} 句，共 {count} 句",
    "heads on {pairs:,} {split} pairs": "在 {pairs:,} 对{split}数据上测量各个头",
    "leaving out {name}, head {number}": "去掉{name}的第 {number} 个头",
    "The heads were not measured: --pairs 0 asked for none.": "没有测量各个头：--pairs 0 要求不测量。",
    "The heads could not be measured: {reason}.": "无法测量各个头：{reason}。",
    "Measured on the first {pairs:,} texts of the {split} data, of which spans are lost as in training, entropy and "
    "distance on the first {seen:,}.":
    "在{split}数据的前 {pairs:,} 条上测量，片段与训练时一样被去掉；熵和距离在前 {seen:,} 条上测量。",
    "Measured on the first {pairs:,} pairs of the {split} data with their given targets, entropy and distance on the "
    "first {seen:,}.": "在{split}数据的前 {pairs:,} 对上按给定目标测量；熵和距离在前 {seen:,} 对上测量。",
    "{encoder} encoder layers": "{encoder} 个编码器层",
    "{encoder} encoder + {decoder} decoder layers": "{encoder} 个编码器层 + {decoder} 个解码器层",
    ", ": "，",
    "D = {d_model}, {n_heads} heads, positions {position}, norm {norm}, residual {residual}, attention {attention}":
        "D = {d_model}，{n_heads} 个头，位置 {position}，归一化 {norm}，残差 {residual}，注意力 {attention}",
    ", window {window}": "，窗口 {window}", ", pooling {pooling}": "，池化 {pooling}",
    "run": "运行", "task": "任务", "model": "模型", "parameters": "参数", "checkpoint": "检查点",
    "{checkpoint}, validation {monitor} {score:.4f}": "{checkpoint}，验证 {monitor} {score:.4f}",
    # the command line
    "{page}: open it in a browser": "{page}：请在浏览器中打开",
    "{count} figures beside it as PNG, the numbers of each as CSV, and parameters.csv":
        "同一文件夹中有 {count} 幅 PNG 图、各图数据的 CSV 文件，以及 parameters.csv",
    # attention
    "Attention": "注意力", "attention weight": "注意力权重", "pale yellow to dark blue": "浅黄到深蓝",
    "head {number}": "头 {number}",
    "Encoder self-attention": "编码器自注意力", "Decoder self-attention": "解码器自注意力",
    "Cross-attention": "交叉注意力",
    "Cross-attention, mean over heads": "交叉注意力，各头平均",
    "Sentence {number}": "第 {number} 句", ", sentence {number}": "，第 {number} 句",
    "Each row is a token and shows what it attended to: the darker a cell, the more of that column's token went into "
    "it; a row sums to 1, unless an attention of your own has it otherwise.":
        "每一行是一个词元，显示它关注了什么：格子颜色越深，该列的词元进入它的份额越大；"
        "一行之和为 1，除非自己编写的注意力并非如此。",
    " Rows of the decoder are the tokens being written, columns of its self-attention the tokens already there. "
    "Recorded in one pass with the model's own output as the target.":
        "解码器的行是正在写出的词元，其自注意力的列是已经写出的词元。以模型自己的输出为目标，一次前向计算记录下来。",
    "text": "文本", "reference": "参考", "probabilities": "概率", "shown": "显示", "left out": "略去",
    "the last {cut} tokens of the text: the model takes no longer ones":
        "文本的最后 {cut} 个词元：模型不接受更长的文本",
    "the first {of_read} of {read} tokens read": "读入的 {read} 个词元中的前 {of_read} 个",
    "the first {of_read} of {read} tokens read and {of_written} of {written} written":
        "读入的 {read} 个词元中的前 {of_read} 个，写出的 {written} 个词元中的前 {of_written} 个",
    ": the first {rows} of {queries} rows, the first {columns} of {keys} columns":
        "：{queries} 行中的前 {rows} 行，{keys} 列中的前 {columns} 列",
    "attends to": "关注", "while reading": "读入时", "while writing": "写出时",
    # heads
    "Heads": "头", "head": "头", "bits": "比特", "tokens": "词元",
    "nats per text": "奈特/文本", "nats per target token": "奈特/目标词元",
    "Some heads attend to one token, some to all alike, some always to a neighbour; some are not needed.":
        "有的头只关注一个词元，有的对所有词元一视同仁，有的总看相邻的词元；还有一些并不需要。",
    "Mean attention entropy": "注意力的平均熵", "Mean attention distance": "注意力的平均距离",
    "Head importance: increase of the loss without the head": "头的重要性：去掉该头后损失的增量",
    "Entropy of a head's weights, averaged over all queries. 0 bits: all on one token; n bits: as if spread evenly "
    "over 2ⁿ tokens.":
        "一个头的权重的熵，对所有查询取平均。0 比特：全部集中于一个词元；n 比特：相当于均匀分布在 2ⁿ 个词元上。",
    "Distance between a token and the tokens it attends to, weighted by attention and averaged.":
        "词元与它所关注的词元之间的距离，按注意力加权后取平均。",
    " Cross-attention goes from a position of the target to one of the source; the decoder's self-attention counts "
    "from the token that was read last, which stands before the one that is written.":
        "交叉注意力从目标位置到源位置；解码器的自注意力从最后读入的词元算起，即正要写出的词元之前的那一个。",
    "The loss of the whole model is {loss:.3f} {unit}. Each number is what leaving out one head adds to that, in bold "
    "where it is more than two standard errors from 0. Nothing is trained again: this says what the model relies on, "
    "not what it could do without.":
        "整个模型的损失是 {loss:.3f} {unit}。每个数值是去掉一个头之后损失的增量，与 0 相差超过两个标准误的用粗体。"
        "模型没有重新训练：数值说明模型依赖什么，而不是它可以不要什么。",
    # training
    "Training": "训练", "Loss": "损失", "Learning rate": "学习率", "step size": "步长", "update": "更新次数",
    "From metrics.jsonl; an update is one step of the optimizer.": "取自 metrics.jsonl；一次更新是优化器的一步。",
    "The metrics cannot be read: {what}.": "无法读取指标：{what}。",
    "There is no metrics.jsonl with training steps in this run folder, so there are no curves.":
        "运行文件夹中没有含训练步的 metrics.jsonl，所以没有曲线。",
    "training, as minimised": "训练（所最小化的损失）", "validation, plain cross-entropy": "验证（普通交叉熵）",
    "Validation scores": "验证分数", "accuracy": "准确率", "exact": "完全匹配率",
    "Loss, learning rate and gradient norm over training, and the scores of the validations where there are some.":
        "训练过程中的损失、学习率和梯度范数；验证有分数时，也包括这些分数。",
    "Gradient norm, before clipping": "梯度范数（裁剪之前）", "‖g‖₂, logarithmic": "‖g‖₂，对数刻度",
    "Gradient norm of each part, before clipping": "各部分的梯度范数（裁剪之前）",
    "Update-to-weight ratio of each part": "各部分的更新–权重比", "‖Δw‖₂ / ‖w‖₂, logarithmic": "‖Δw‖₂ / ‖w‖₂，对数刻度",
    "Gradient norms and update ratios by part were not recorded when this run was trained.":
        "训练此运行时没有记录各部分的梯度范数和更新比。",
    "Where the gradient flows: a part that stays pale learns little; one that turns dark of a sudden is where training "
    "could break.": "梯度流向何处：始终颜色浅的部分学得少；突然变深之处，可能就是训练要崩溃的地方。",
    "How far an update moved the weights of a part, as a share of their norm; grey where it did not move them. A rule "
    "of thumb is 0.001.":
        "一次更新使一个部分的权重移动了多远，以其范数的比例表示；没有移动之处为灰色。经验值是 0.001。",
    # weights and parameters
    "Weights": "权重", "Parameters": "参数", "part": "部分", "parameter": "参数", "shape": "形状", "bytes": "字节",
    "share": "比例", "All": "全部",
    "What training has made of the parameters.": "训练把参数变成了什么样。",
    "A matrix with several uses counts once. Bytes are those of the weights in memory; training needs more.":
        "有多种用途的矩阵只计一次。字节数是权重在内存中所占的；训练需要更多。",
    "Distribution of the weights, by part": "各部分权重的分布", "weight": "权重值",
    "attention": "注意力", "feed-forward": "前馈层", "other": "其他",
    "The matrices of each part: how many of their weights have which value; all hills have the same area. Narrow hills "
    "are small weights, a spike at 0 is weights that do nothing. Biases and gains are left out.":
        "各部分的矩阵：有多少权重取什么值；所有山丘的面积相同。山丘窄，说明权重小；"
        "0 处的尖峰是不起作用的权重。不含偏置和增益。",
    "Size of the weights": "权重的大小", "root mean square, logarithmic": "均方根，对数刻度",
    "‖g‖₂ of logged updates: median, 10 % to 90 %": "已记录更新的 ‖g‖₂：中位数，10 % 至 90 %",
    "How large the weights of a part are, and beside it how strongly the loss pulled at the part during training. "
    "Layers that differ much from their neighbours are worth a look.":
        "一个部分的权重有多大，以及训练期间损失对它的拉力有多强。与相邻各层相差很大的层值得一看。",
    "By part": "按部分", "Each parameter": "每个参数",
    "mean": "均值", "standard deviation": "标准差", "least": "最小", "greatest": "最大", "near 0": "接近 0",
    "norm": "范数", "spectral norm": "谱范数", "effective rank": "有效秩",
    "Near 0: the share of weights that are at most a hundredth of the root mean square of their parameter; of a normal "
    "distribution 0.8 % are. Norm: √Σ w². Spectral norm: the largest singular value. Effective rank: exp(−Σ p ln p) of "
    "the singular values as shares p of their sum, so the directions that a matrix uses, of as many as its shorter "
    "side has (Roy and Vetterli 2007).":
        "接近 0：绝对值不超过所属参数均方根百分之一的权重所占的比例；正态分布中为 0.8 %。"
        "范数：√Σ w²。谱范数：最大的奇异值。有效秩：奇异值各占其总和的比例为 p，取 exp(−Σ p ln p)，"
        "即矩阵用到的方向数，最多为其较短一边的长度"
        "（Roy and Vetterli 2007）。",
    # shapes
    "Shapes": "形状", "step": "步骤", "class": "类", "in": "输入", "out": "输出",
    "The first sentence as a batch of 1, with D = {d_model} and {heads} heads; of a head, queries and keys have width "
    "{key} and values {width}. Attention takes them as [batch, heads, tokens, width], and a bias where the positions "
    "add one.":
        "第一个句子，批大小为 1，D = {d_model}，{heads} 个头；每个头的查询和键宽 {key}，值宽 {width}。"
        "它们进入注意力时的形状是[批，头，词元，宽度]；位置方案若加偏置，则另有一个偏置。",
    # confusion
    "Confusion": "混淆矩阵", "predicted": "预测", "true": "真实", "% of the true label": "占真实标签的 %",
    "Which labels are taken for which: rows are the true labels, columns the predicted ones.":
        "哪些标签被当成了哪些：行是真实标签，列是预测标签。",
    "There is no evaluation with a confusion table yet; `pellucid evaluate {run}` makes one.":
        "还没有带混淆表的评估；`pellucid evaluate {run}` 会生成。",
    "Confusion matrix of {n:,} test examples": "{n:,} 个测试样本的混淆矩阵",
    "Accuracy {accuracy:.1f} %, macro-F1 {macro_f1:.1f} %. Colours are shares of a row; numbers are examples.":
        "准确率 {accuracy:.1f} %，macro-F1 {macro_f1:.1f} %。颜色是占一行的比例；数字是样本数。",
    # positions
    "Positions": "位置", "position": "位置", "feature": "特征", "value": "数值", "pair": "特征对",
    "model.position is {name}.": "model.position 是 {name}。",
    "model.position is {name}. It adds a vector to each embedded token before the first layer.":
        "model.position 是 {name}。它在第一层之前给每个嵌入后的词元加上一个向量。",
    "model.position is {name}. It rotates queries and keys, pair by pair of features.":
        "model.position 是 {name}。它把查询和键逐对特征地旋转。",
    "model.position is {name}. It adds a bias to every attention score, another one for each head.":
        "model.position 是 {name}。它给每个注意力分数加上偏置，各个头不同。",
    "The model is told nothing of order: it sees a bag of tokens, but for what the causal mask of a decoder gives "
    "away. There is nothing to draw.":
        "模型不知道任何顺序：除了解码器的因果掩码所透露的以外，它看到的是一袋词元。没有可画的内容。",
    "How long the sequences of training were is not known here ({reason}): of positions beyond them, nothing was "
    "learned.": "这里无法得知训练序列有多长（{reason}）：超出其长度的位置没有学到任何东西。",
    "Learned, and drawn as far as training went: up to {source} tokens read, in the first {pairs:,} training examples.":
        "由学习得到，只画到训练所及之处：在前 {pairs:,} 个训练样本中，最多读入 {source} 个词元。",
    "Learned, and drawn as far as training went: up to {source} tokens read and {target} written, in the first "
    "{pairs:,} training examples.":
        "由学习得到，只画到训练所及之处：在前 {pairs:,} 个训练样本中，最多读入 {source} 个、写出 {target} 个词元。",
    "Position encoding: {name}": "位置编码：{name}",
    "Added to the embedding at each position": "在每个位置加到嵌入上的值", "Some of the features": "其中一些特征",
    "Similarity of positions": "位置之间的相似程度", "cosine similarity": "余弦相似度",
    "The first {length} positions of {features} features: all of them, some as curves, and how alike the vectors of "
    "two positions are.":
        "前 {length} 个位置的 {features} 个特征：全部的矩阵，其中一些的曲线，以及两个位置的向量有多相似。",
    "Rotation of each pair of features": "每对特征的旋转", "pair of features": "特征对", "cos(angle)": "cos(角度)",
    "Some of the pairs": "其中一些特征对", "q·k of equal vectors": "相同向量的 q·k",
    "distance (tokens)": "距离（词元）", "q·k, 1 at distance 0": "q·k，距离为 0 时是 1",
    "Queries and keys are rotated by these angles in every self-attention, so that their product depends on the "
    "distance between them. The first pairs turn fast, the last ones slowly.":
        "在每个自注意力中，查询和键按这些角度旋转，使它们的乘积取决于两者的距离。前面的特征对转得快，后面的转得慢。",
    "every self-attention": "所有自注意力",
    "position of the key": "键的位置", "position of the query": "查询的位置", "added to the score": "加到分数上的值",
    "position of the key − position of the query (tokens)": "键的位置 − 查询的位置（词元）",
    "Position bias over distance: {name}": "位置偏置随距离的变化：{name}",
    "Position bias of each head: {name}": "每个头的位置偏置：{name}",
    "What is added to a score, over the distance from the query to the key; left of 0 the key comes first.":
        "加到分数上的值，随查询到键的距离变化；0 的左边，键在前。",
    "The same as matrices over the first positions.": "同样的值，画成前若干个位置的矩阵。",
    " In a decoder, the causal mask hides what is right of the diagonal.":
        "在解码器中，因果掩码遮住对角线右边的部分。",
    "A parabola for each head: it looks about the top, the closer the steeper it is.":
        "每个头一条抛物线：它看的是顶点附近，抛物线越陡，看得越窄。",
    "A number for each of {buckets} buckets of distances: the far ones share one.":
        "{buckets} 个距离桶各有一个数：较远的距离共用一个。",
    "Only the term that does not depend on the query is drawn.": "只画出不依赖于查询的那一项。",
}
