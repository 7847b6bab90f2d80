"""For each kind of finding in data: what it is, from which share it is how bad, what it costs, what to do."""

from dataclasses import dataclass

from pellucid.doctor.finding import Severity

_NEVER = 2.0  # a share that nothing reaches


@dataclass(frozen=True)
class Advice:
    """What is said about a kind; `warning` and `broken` are shares of the lines, 0 being any line at all."""

    what: str
    warning: float
    broken: float
    cost: str
    do: str

    def severity(self, count: int, total: int) -> Severity:
        """How bad `count` lines of `total` are."""
        share = count / max(total, 1)
        return "broken" if share >= self.broken else "warning" if share >= self.warning else "note"


_DROP = "remove these pairs, or repair them at their source"

ADVICE: dict[str, Advice] = {
    "encoding": Advice(
        "lines are not valid UTF-8", 0, 0, "training stops at the first one",
        "convert the file: iconv -f WINDOWS-1252 -t UTF-8 OLD > NEW (or whichever encoding it is in)"),
    "columns": Advice(
        "lines have too few or too many columns", 0, 0, "training stops at the first one",
        "one tab between columns, and none inside a text"),
    "line_counts": Advice(
        "the two files have different numbers of lines", 0, 0, "training stops: no pair can be trusted",
        "find the missing or extra line; a finding `shifted` says where"),
    "shifted": Advice(
        "the sides slip against each other", 0, 0.001, "every pair from there on teaches a wrong translation",
        "put the missing line back, or remove the extra one, at the place named (a line or two before or after it)"),
    "misaligned": Advice(
        "pairs whose words do not go together: free translations, or wrong ones", 0.01, 0.2,
        "the model learns to ignore its source", "look at them, and remove what is wrong"),
    "length_ratio": Advice(
        "pairs of which one side is far too long or too short for the other", 0.003, 0.2,
        "text that is added or left out, learned as such", _DROP),
    "swapped": Advice(
        "pairs with source and target swapped", 0.0005, 0.2, "the model learns to answer in the wrong language",
        "swap them back"),
    "one_side_twice": Advice(
        "pairs with both sides in the language of one", 0.003, 0.2, "the model learns to leave text untranslated",
        _DROP),
    "copied": Advice(
        "pairs with the same text on both sides", 0.003, _NEVER,
        "the model learns to copy; a few per cent cost whole points of BLEU",
        "remove those that are no names or numbers"),
    "copying": Advice(
        "most pairs have the same text on both sides", _NEVER, _NEVER, "nothing, where copying is the task",
        "else see whether one file or column is given for both sides"),
    "foreign_script": Advice(
        "lines in a script that this side does not use", 0.0005, 0.2, "wasted vocabulary, and output in that script",
        _DROP),
    "strange_language": Advice(
        "lines that look like another language", 0.003, 0.2, "wasted capacity, and output in that language",
        _DROP),
    "empty": Advice(
        "records with an empty text", 0.001, 0.5, "training skips them; in a test set they count",
        "remove them, from both sides at once, so that no line slips"),
    "mojibake": Advice(
        "lines were decoded with a wrong encoding (“Ã¼” for “ü”)", 0.0005, 0.2,
        "words split in two spellings, and the wrong one in the output",
        "decode again: text.encode(\"cp1252\").decode(\"utf-8\"), or fetch the original"),
    "replacement_character": Advice(
        "lines hold U+FFFD, where a character was lost", 0.0005, 0.2, "what was lost is lost; the sign is learned",
        "read the original with its true encoding, or remove these lines"),
    "control_character": Advice(
        "lines hold control characters or line separators", 0.0005, 0.5,
        "they become tokens; other tools break lines at them, and shift all that follows", "delete these characters"),
    "invisible_character": Advice(
        "lines hold invisible characters (byte order marks, soft hyphens, zero-width spaces)", 0.005, _NEVER,
        "one word in two spellings that look alike", "delete these characters"),
    "carriage_return": Advice(
        "lines end with a carriage return (Windows line ends)", _NEVER, _NEVER,
        "nothing here, where it is taken off; other tools keep it as a character", "tr -d '\\r' < OLD > NEW"),
    "byte_order_mark": Advice(
        "the file begins with a byte order mark", _NEVER, _NEVER,
        "nothing here, where it is taken off; other tools read it as text", "save the file as UTF-8 without it"),
    "duplicates": Advice(
        "pairs that stand there already", 0.05, _NEVER, "what is repeated is weighed by it, and learned by heart",
        "remove the repeats, unless they are meant as weights"),
    "duplicates_normalised": Advice(
        "pairs that stand there already but for case, spaces and punctuation", 0.05, _NEVER,
        "what is repeated is weighed by it", "remove the repeats, unless the difference is what is to be learned"),
    "leak": Advice(
        "held-out pairs that stand in the training data", 0.002, 0.05, "the score is of memory, not of skill",
        "remove these pairs from the training data"),
    "leak_normalised": Advice(
        "held-out pairs that stand in the training data but for case, spaces and punctuation", 0.002, 0.05,
        "the score is of memory, not of skill", "remove these pairs from the training data"),
    "leak_source": Advice(
        "held-out sources that stand in the training data with another target", 0.05, _NEVER,
        "the score is better than on text that is truly new", "remove these sources from the training data"),
    "leak_passage": Advice(
        "passages of held-out questions that stand in the training data", 0.002, 0.2,
        "the score is better than on text that is truly new", "divide by passages, or remove them from training"),
    "leak_passage_near": Advice(
        "passages of held-out questions of which half or more stands in one of the training data", 0.01, _NEVER,
        "the score is better than on text that is truly new", "look at them, and remove them from training"),
    "answer_nowhere": Advice(
        "questions whose answers do not stand in their passages", 0.01, 0.5,
        "training leaves these questions out; in a test set no reader can get them right",
        "correct the answer or the passage: the text must be there character by character"),
    "too_long": Advice(
        "texts are longer than model.max_length", 0.01, 0.5, "training drops them (or cuts them: data.too_long)",
        "raise model.max_length, or split long texts"),
    "label_unknown": Advice(
        "records have a label that training never sees", 0, 0, "evaluation stops at the first one",
        "add training examples of it, or correct the label"),
    "label_empty": Advice(
        "records have no label", 0, 0.5, "training skips them", "label them, or remove them"),
    "label_misspelt": Advice(
        "records have a label that looks like another one misspelt", 0, _NEVER, "one class becomes two",
        "correct the label"),
    "label_conflict": Advice(
        "texts stand there already with another label", 0.005, 0.3, "no model can get both right",
        "decide on one label for each text"),
    "labels_are_texts": Advice(
        "there are more labels than any classifier has", 0, 0, "training stops",
        "the columns are swapped: set data.source_field and data.label_field"),
    "label_imbalance": Advice(
        "records have a label that is rare beside the most frequent one", _NEVER, _NEVER,
        "accuracy hides how rare labels do", "look at macro-F1 (train.monitor: macro_f1), and collect more of them"),
}
