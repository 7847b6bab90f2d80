"""The trackers that ship, by name. None needs a network: each writes where its own settings say, else to the disk."""

import os
from collections.abc import Callable, Iterable
from typing import Any

from pellucid.errors import ConfigError
from pellucid.train.tracking import Event, Tracked, Tracker, scalars

_PROJECT = "pellucid"


class TensorBoard(Tracker):
    """Event files in RUN/tensorboard: ``tensorboard --logdir runs``."""

    takes_back = True

    def __init__(self) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._open: Any = SummaryWriter

    def begin(self, run: Tracked) -> None:
        """What comes after `run.step` in earlier files is void from here on."""
        self._writer = self._open(run.folder / "tensorboard", purge_step=run.step + 1 if run.step else None)

    def train(self, event: Event) -> None:
        """A scalar a number."""
        for name, value in scalars(event).items():
            self._writer.add_scalar(name, value, event["step"])
        self._writer.flush()

    validation = train

    def end(self, summary: Event | None) -> None:
        """Closes the file."""
        self._writer.close()


class Trackio(Tracker):
    """A run of the project pellucid on this machine: ``trackio show --project pellucid``."""

    def __init__(self) -> None:
        import trackio

        self._trackio: Any = trackio

    def begin(self, run: Tracked) -> str:
        """Goes on with the run of the same name."""
        name = run.id or str(run.folder)
        self._trackio.init(project=_PROJECT, name=name, resume="allow" if run.id else "never", config=run.config)
        return name

    def train(self, event: Event) -> None:
        """One row."""
        self._trackio.log(scalars(event), step=event["step"])

    validation = train

    def end(self, summary: Event | None) -> None:
        """Waits until all is written."""
        self._trackio.finish()


class MLflow(Tracker):
    """A run of the experiment pellucid, where MLFLOW_TRACKING_URI says, or in MLflow's own folder here."""

    def __init__(self) -> None:
        import mlflow

        self._mlflow: Any = mlflow

    def begin(self, run: Tracked) -> str:
        """Goes on with the run of the same id; a new one has the configuration as config.json."""
        self._mlflow.set_experiment(_PROJECT)
        started = self._mlflow.start_run(run_id=run.id, run_name=run.folder.name)
        if run.id is None:
            self._mlflow.log_dict(run.config, "config.json")
        return str(started.info.run_id)

    def train(self, event: Event) -> None:
        """A metric a number."""
        self._mlflow.log_metrics(scalars(event), step=event["step"])

    validation = train

    def end(self, summary: Event | None) -> None:
        """A training that goes on later is killed, in MLflow's words."""
        self._mlflow.end_run("KILLED" if summary is None else "FINISHED")


class WeightsAndBiases(Tracker):
    """A run of the project pellucid, kept in RUN/wandb for ``wandb sync`` unless WANDB_MODE says otherwise."""

    def __init__(self) -> None:
        import wandb

        self._wandb: Any = wandb

    def begin(self, run: Tracked) -> str:
        """Goes on with the run of the same id."""
        self._run = self._wandb.init(project=_PROJECT, name=run.folder.name, dir=str(run.folder), id=run.id,
                                     resume="allow", config=run.config, mode=os.environ.get("WANDB_MODE", "offline"))
        return str(self._run.id)

    def train(self, event: Event) -> None:
        """One row."""
        self._run.log(scalars(event), step=event["step"])

    validation = train

    def end(self, summary: Event | None) -> None:
        """Writes what is left."""
        self._run.finish()


# A tracker of one's own is put here by its name, in a file that --import names.
TRACKERS: dict[str, Callable[[], Tracker]] = {"tensorboard": TensorBoard, "trackio": Trackio, "mlflow": MLflow,
                                              "wandb": WeightsAndBiases}
_EXTRA = ("tensorboard", "trackio")  # that `track` installs


def make_trackers(names: Iterable[str]) -> dict[str, Tracker]:
    """The trackers of `train.track`.

    Raises:
        ConfigError: no such tracker (the names are listed), or its package is not installed.
    """
    made = {}
    for name in names:
        if name not in TRACKERS:
            raise ConfigError(f"there is no tracker {name!r}", where="train.track",
                              fix=f"choose {', '.join(TRACKERS)}; one of your own is put into TRACKERS by --import")
        try:
            made[name] = TRACKERS[name]()
        except ImportError as error:
            package = "'pellucid[track]'" if name in _EXTRA else name
            raise ConfigError(f"the tracker {name} needs a package that is not installed", where="train.track",
                              why=str(error), fix=f"pip install {package}, or leave it out of train.track") from error
    return made
