"""The end of a run: the last validation, the average of the last checkpoints, the choice of the best, the card."""

import time
from pathlib import Path
from typing import Any

from pellucid.files import write_json
from pellucid.runs.checkpoint import load_weights
from pellucid.runs.folder import ENDED
from pellucid.runs.format import AVERAGE, WEIGHTS
from pellucid.runs.tensors import read_tensors
from pellucid.train.averaging import mean_of
from pellucid.train.loop import Session, how_ended, is_better, scores_at_end
from pellucid.train.model_card import write_model_card


def finish(session: Session, out: Path) -> dict[str, Any]:
    """Points best.json to the best of the weights, of their average and of those of the last step, and writes why the
    run has ended into ended.json and the model card. Doing it again changes nothing."""
    store, learner, progress = session.store, session.learner, session.learner.progress
    monitor, started = learner.config.train.monitor, time.monotonic()
    score, best = progress.best_score, progress.best_step
    if score is None or progress.step % session.validate_every:  # somebody has removed the best, or none was due
        last = scores_at_end(session)[monitor]
        if score is None or is_better(monitor, last, score):
            score, best = last, progress.step
    name, average = store.path(best).name, scores_of_average(session)
    scores: dict[str, float] = {monitor: score}
    if average and not is_better(monitor, score, average[monitor]):
        name, score, best, scores = AVERAGE, average[monitor], progress.step, average
    if learner.world.is_first:
        store.point_best(name, best, monitor, score)
        store.prune(progress.step, progress.best_step)  # what was the best where a shorter run ended
    load_weights(learner.model, store.folder / name)
    session.spent.others += time.monotonic() - started
    ended, why = how_ended(session)
    session.reporter.say(why)
    summary = {"run": str(out), "step": progress.step, "ended": ended, "why": why, "best": name, "monitor": monitor,
               "score": score, "scores": scores, "parameters": sum(p.numel() for p in learner.parameters),
               "source_tokens": progress.source_tokens, "target_tokens": progress.target_tokens,
               "seconds": round(progress.seconds, 6), "overhead": session.spent.overhead}
    if learner.world.is_first:
        write_model_card(learner.config, summary, out)
        write_json(out / ENDED, {"ended": ended, "why": why, "step": progress.step})
    learner.world.meet()
    session.tracking.summary = summary
    return summary


def scores_of_average(session: Session) -> dict[str, float]:
    """The scores of the mean of the last checkpoints, which is written; none where there are fewer than two of them, or
    none is wanted."""
    store, learner, train = session.store, session.learner, session.learner.config.train
    milestones = store.whole_milestones(session.reporter.say) if train.average_last > 1 else []
    if len(milestones) < 2:
        return {}
    if learner.world.is_first:
        store.save_average(mean_of(read_tensors(folder / WEIGHTS) for folder in milestones), learner.progress.step)
    learner.world.meet()
    load_weights(learner.model, store.folder / AVERAGE)
    scores = session.validate(None)
    told = "  ".join(f"{key} {value:.3f}" for key, value in scores.items())
    session.reporter.say(f"average of the last {len(milestones)} checkpoints  validation  {told}")
    return scores
