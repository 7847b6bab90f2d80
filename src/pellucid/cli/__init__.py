"""What can be typed? One short file a verb; verbs are imported when they are called, so that help costs nothing."""

import atexit
import gc
import importlib
import os
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

VERBS = {
    "demo": "train English→French in about two minutes, score it, show translations and pictures",
    "recipes": "list the runs that ship, with their cost and expected score",
    "doctor": "find what is wrong with the data or the machine before training",
    "plan": "what a run will take: parameters, operations, memory, disk, time",
    "prepare": "make a run's tokenizer and token ids beforehand, by any number of processes",
    "train": "train a model from a recipe or a YAML file; run again, it resumes",
    "generate": "text to text, line by line, with a trained run",
    "translate": "the same as generate",
    "classify": "text to label and probabilities, line by line",
    "score": "the log-probability of given targets",
    "evaluate": "score runs on unseen data, with intervals, and compare them",
    "serve": "answer over HTTP: LibreTranslate's clients, and our own API",
    "play": "type, and look inside a run as it works, in the browser",
    "diff": "what differs between two runs: configuration, data, environment, weights, losses",
    "ablate": "run a study: factors × seeds, to a report with intervals and corrected tests",
    "inspect": "look inside a run: figures and one self-contained page",
    "runs": "list runs with their state, scores and sizes; runs clean frees what nobody needs",
    "index": "an index of your documents, to search in",
    "search": "passages that fit a question, each with its place",
    "answer": "answer questions from an index of your documents, each answer with its place",
    "export": "a copy of a run for others: slim, whole and checked",
    "import": "a run of a model that was trained elsewhere",
    "tokenizer": "train or look at a tokenizer on its own",
}
_MODULES = {"translate": "generate", "import": "import_"}  # where it is not the verb's own name
_TRAINING = ("train", "demo", "plan")  # or measuring what it takes
_WAITING = {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}  # how torch's threads wait for each other: whoever has set one decides
_SPINS = "10000"  # tens of microseconds; of itself milliseconds, in which a late one waits for the processor they hold
_SELDOM = (20_000, 50, 100)  # objects: what is imported is no garbage, and to look through it took a tenth of a start
_FLAGS = {
    "--version": "print the version",
    "--debug": "show tracebacks",
    "--import own.py": "a file that registers parts of your own (any verb)",
}
_STEPS = {
    "pellucid demo": "a translator in two minutes",
    "pellucid demo answers": "answers from documents, each with its place",
    "pellucid train multi30k-en-de --dry-run": "what a recipe is made of",
    "pellucid doctor my.yaml": "what is wrong with your data?",
    "pellucid train my.yaml --out runs/mine": "your own data",
    'echo "the cat sleeps ." | pellucid translate runs/demo': "",
    "pellucid inspect runs/demo": "pictures of what it attends to",
}


def program() -> int:
    """What is typed in a terminal: a process of its own, which training may start anew."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # nobody wants it ignored
        signal.signal(signal.SIGINT, _interrupted)
    atexit.register(gc.freeze)  # to look for cycles at its end takes a fifth of torch's import
    if not _WAITING & set(os.environ):
        os.environ["GOMP_SPINCOUNT"] = _SPINS
    words = sys.argv[1:]
    if words and words[0] in _TRAINING and not {"-h", "--help"} & set(words):
        try:
            from pellucid.kernels.allocator import start_anew

            start_anew()
        except KeyboardInterrupt:
            return _stop("stopped", 130)
    else:
        gc.set_threshold(*_SELDOM)
    return main(words)


def _interrupted(number: int, frame: FrameType | None) -> None:
    """Ctrl-C, as Python has it; but while torch is imported, whose C++ imports numpy and would swallow it, or leave
    half of that, the process ends at once."""
    torch = sys.modules.get("torch")
    if torch is not None and getattr(torch.__spec__, "_initializing", False):
        os._exit(_stop("stopped", 130))
    signal.default_int_handler(number, frame)


def main(arguments: Sequence[str]) -> int:
    """Runs one verb and returns its exit code: 0 done, 2 usage or config, 3 data, 4 checkpoint, 5 numerical stop,
    74 input/output, 128+n signal n."""
    words = list(arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    if sys.stderr is None:  # closed: what is told there is lost, and no file of ours gets its number
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if sys.stdout is None:
        return _stop("standard output is closed", 74)
    if hasattr(sys.stdout, "reconfigure"):  # a file's name may have bytes that are no UTF-8, and JSON reads them back
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with warnings.catch_warnings():
            _tell_warnings()
            code = _run(words)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader of our output has gone: nothing more to say, to anyone
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 74
    except KeyboardInterrupt:
        return _stop("stopped", 130)
    except Exception as error:
        if debug:
            raise
        return _explain(error)


def _run(words: list[str]) -> int:
    if not words or words[0] in ("--help", "-h", "help"):
        print("\n".join(_help()))
        return 0
    if words[0] == "--version":
        from pellucid import __version__

        print(__version__)
        return 0
    verb, *rest = _verb_first(words)
    if verb not in VERBS:
        from pellucid.errors import guess

        hint = guess(verb, VERBS).rstrip() or f"the verbs are {', '.join(VERBS)}"
        return _stop(f"there is no verb {verb!r}\n  do:    {hint}", 2)
    rest = _with_own_parts(rest)
    module = importlib.import_module(f"pellucid.cli.{_MODULES.get(verb, verb)}")
    code: int = module.main(f"pellucid {verb}", rest)
    return code


def _verb_first(words: list[str]) -> list[str]:
    """The words with the verb before ``--import FILE``."""
    before = 0
    while words[before].partition("=")[0] == "--import" and before + 2 < len(words):
        before += 1 if "=" in words[before] else 2
    return [words[before], *words[:before], *words[before + 1 :]]


def _help() -> Iterator[str]:
    """The verbs, in the language of who reads it."""
    from pellucid.cli.chinese import told

    yield f"pellucid: {told('a Transformer you can see through')}\n"
    usage = told("usage: {}").format(f"pellucid {told('VERB [arguments]')}")
    yield f"{usage}      {told('pellucid VERB --help says more')}\n"
    yield from (f"  {verb:<10} {told(text)}" for verb, text in VERBS.items())
    yield ""
    yield from (f"  {flag:<17} {told(text)}" for flag, text in _FLAGS.items())
    yield f"\n{told('First steps:')}"
    yield from (f"  {step:<45} {told(text)}".rstrip() for step, text in _STEPS.items())


def _with_own_parts(words: list[str]) -> list[str]:
    """The words without ``--import FILE``, whose files have been imported."""
    if not any(word.partition("=")[0] == "--import" for word in words):
        return words
    from pathlib import Path

    from pellucid import own
    from pellucid.errors import ConfigError

    rest, files = list[str](), list[str]()
    for word, before in zip(words, ["", *words], strict=False):
        if before == "--import":
            files.append(word)
        elif word.startswith("--import="):
            files.append(word.removeprefix("--import="))
        elif word != "--import":
            rest.append(word)
    if words[-1:] == ["--import"]:
        raise ConfigError("--import needs a file", where="--import")
    for file in files:
        own.import_file(Path(file))
    return rest


def _tell_warnings() -> None:
    """From now on our own warnings are lines on standard error, each told once."""
    from pellucid.errors import PellucidWarning

    others, told = warnings.showwarning, set[str]()

    def show(message: Warning | str, category: type[Warning], filename: str, lineno: int, *more: Any) -> None:
        if not issubclass(category, PellucidWarning):
            others(message, category, filename, lineno, *more)
        elif str(message) not in told:
            told.add(str(message))
            print("\r\x1b[2K" * sys.stderr.isatty() + f"pellucid: {message}", file=sys.stderr)  # behind a live line

    warnings.showwarning = show  # type: ignore[assignment]
    warnings.simplefilter("always", PellucidWarning)


def _explain(error: Exception) -> int:
    """One screen for a mistake, and its exit code."""
    from pellucid import own
    from pellucid.errors import UserError

    if isinstance(error, UserError):
        return _stop(str(error), error.exit_code)
    if place := own.place_of(error):
        return _stop(f"a part of your own failed: {type(error).__name__}: {error}\n  where: {place}", 2)
    if isinstance(error, MemoryError):
        return _stop("out of memory\n  do:    try a smaller train.batch_tokens or decode.batch_tokens", 74)
    if isinstance(error, OSError):
        place = f"\n  where: {error.filename}" if error.filename else ""
        fix = "\n  do:    check the path and its permissions" if isinstance(error, PermissionError) else ""
        return _stop(f"input or output failed: {error.strerror or error}{place}{fix}", 74)
    if isinstance(error, ValueError):
        return _stop(str(error), 2)
    whose = " or ".join(["pellucid", *own.words()[1::2]])
    return _stop(f"pellucid failed: {type(error).__name__}: {error}\n  do:    this is a bug in {whose}; run it again "
                 "with --debug to see where", 1)


def _stop(message: str, code: int) -> int:
    lines = [line[:1000] + "…" * (len(line) > 1000) for line in message.splitlines()]  # one screen, whatever it quotes
    lines = ["".join(repr(c)[1:-1] if c < " " or "\x7f" <= c < "\xa0" else c for c in line) for line in lines]
    print("pellucid:", "\n".join(lines), file=sys.stderr)
    return code
