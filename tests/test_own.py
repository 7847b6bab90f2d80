"""Parts of one's own: registered, built, trained, recorded, asked for, and no others."""

from __future__ import annotations

import importlib
import json
import sys
import warnings
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import pellucid
from pellucid.cli import main
from pellucid.config import ModelConfig
from pellucid.errors import CheckpointError, ConfigError, PellucidWarning
from pellucid.model.build import PARTS, build_classifier
from pellucid.nn.layer_norm import RmsNorm
from pellucid.nn.positional_encoding import SinusoidalPosition
from pellucid.nn.residual_connection import PreNormResidual
from pellucid.nn.scaled_dot_product_attention import ScaledDotProductAttention

pytestmark = pytest.mark.usefixtures("no_own_parts")
CONFIG = {"d_model": 16, "n_heads": 2, "d_ff": 32, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}
SOURCE, TARGET = torch.randint(4, 20, (3, 7)), torch.randint(4, 20, (3, 5))
OWN = """import pellucid
import torch
from torch import nn

class Gain(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))

    def forward(self, x):
        return x * self.gain / 8

pellucid.register("norm", "gain", Gain)
"""
TRAIN = ["train", "copy", "--out", "run", "--train.epochs", "null", "--train.steps", "2", "--train.validate_every", "2",
         "--data.generated.train", "40", "--data.generated.validation", "10", "--data.generated.test", "10",
         "--model.d_model", "16", "--model.d_ff", "16", "--model.n_heads", "2"]


class Own(nn.Module):
    """What a part that ships does, as a class of one's own."""

    accepts_bias = accepts_rotation = needs_closing_norm = True
    shipped: type[nn.Module]

    def __init__(self, *made: object) -> None:
        super().__init__()
        self.part = self.shipped(*made[: 2 if self.shipped is PreNormResidual else 1])

    def forward(self, *given: object) -> Tensor:
        found: Tensor = self.part(*given)
        return found

    def weights(self, *given: object) -> Tensor:
        return self.part.weights(*given)


class OwnPosition(pellucid.Position):
    def __init__(self, config: ModelConfig, bidirectional: bool) -> None:
        super().__init__()
        self.shipped = SinusoidalPosition(config.d_model)

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return self.shipped.embed(x, positions)


@pytest.mark.parametrize(("part", "name", "kind"), [
    ("position", "sinusoidal", OwnPosition),
    ("norm", "rmsnorm", type("OwnNorm", (Own,), {"shipped": RmsNorm})),
    ("attention", "full", type("OwnAttention", (Own,), {"shipped": ScaledDotProductAttention})),
    ("residual", "pre", type("OwnResidual", (Own,), {"shipped": PreNormResidual})),
])
def test_a_part_that_does_what_a_shipped_one_does_gives_the_same_model(part: str, name: str,
                                                                       kind: type[nn.Module]) -> None:
    pellucid.register(part, "own", kind)
    models = [pellucid.build(ModelConfig(**{**CONFIG, part: each}), 20, 20).eval() for each in (name, "own")]
    outputs = [model(SOURCE, TARGET) for model in models]
    assert torch.equal(*outputs)


def test_a_feed_forward_layer_and_a_pooling_of_ones_own() -> None:
    class Nothing(nn.Module):
        def __init__(self, d_model: int, d_ff: int, dropout: float) -> None:
            super().__init__()
            assert (d_model, d_ff, dropout) == (16, 32, 0.0)

        def forward(self, x: Tensor) -> Tensor:
            return 0 * x

    class Last(nn.Module):
        def forward(self, memory: Tensor, real: Tensor) -> Tensor:
            return memory[:, -1]

    pellucid.register("feed_forward", "nothing", Nothing)
    pellucid.register("pooling", "last", Last)
    model = build_classifier(ModelConfig(**CONFIG, feed_forward="nothing", pooling="last"), 20, 3)
    assert model(SOURCE).shape == (3, 3)


def test_first_weights_come_from_the_seed_alone() -> None:
    class Convolution(nn.Module):
        def __init__(self, d_model: int, d_ff: int, dropout: float) -> None:
            super().__init__()
            self.inner = nn.Conv1d(d_model, d_model, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x.transpose(1, 2)).transpose(1, 2)

    pellucid.register("feed_forward", "convolution", Convolution)
    config = ModelConfig(**CONFIG, feed_forward="convolution")
    torch.manual_seed(7)
    models = [pellucid.build(config, 20, 20, seed=seed) for seed in (1, 1, 2)]
    one, again, other = (model.encoder.layers[0].feed_forward.inner.weight for model in models)
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


@pytest.mark.parametrize(("part", "name", "kind", "said"), [
    ("positions", "own", OwnPosition, "there is no part 'positions'"),
    ("position", "rotary", OwnPosition, "ships with pellucid"),
    ("position", "own", RmsNorm, "it is no Position"),
    ("position", "own", type("Mistyped", (pellucid.Position,), {"embd": OwnPosition.embed}), "it has none of embed"),
    ("position", "own", type("Both", (OwnPosition,), {"rotate": OwnPosition.embed}), "it has embed and rotate of"),
    ("norm", "own", "RmsNorm", "cannot be a norm: RmsNorm"),
    ("norm", "own", dict, "it is no Module"),
    ("attention", "own", RmsNorm, "does not declare accepts_bias, accepts_rotation, weights"),
    ("residual", "own", RmsNorm, "does not declare needs_closing_norm"),
])
def test_what_cannot_be_a_part_is_refused(part: str, name: str, kind: type[nn.Module], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        pellucid.register(part, name, kind)
    assert said in str(caught.value)
    assert all("own" not in known for known in PARTS.values())


def test_what_an_own_attention_does_not_accept_is_refused_as_ever() -> None:
    class Blind(ScaledDotProductAttention):
        accepts_bias = False

    pellucid.register("attention", "blind", Blind)
    with pytest.raises(ConfigError, match="adds a bias"):
        pellucid.build(ModelConfig(**CONFIG, attention="blind", position="alibi"), 20, 20)


@pytest.mark.parametrize(("held", "ends"), [("self.register_buffer('seen', torch.zeros(d_model))", 2),
                                            ("self.seen = nn.Parameter(torch.zeros(d_model), requires_grad=False)", 0)])
def test_what_training_changes_is_held_by_checkpoints_or_refused(
        held: str, ends: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(OWN.replace(
        "self.gain =", f"{held}\n        self.gain =", 1).replace(
        "return x", "self.seen.data.lerp_(x.detach().mean((0, 1)).float(), 0.5 * self.training)\n        return x"))
    assert main([*TRAIN, "--import", "own.py", "--model.norm", "gain"]) == ends
    told = capsys.readouterr().err
    if ends:
        assert "training changes a buffer, and checkpoints hold parameters alone" in told
        assert ".seen" in told
    else:
        kept = {name: p for name, p in pellucid.load("run").model.named_parameters() if name.endswith("seen")}
        assert len(kept) >= 2
        assert all(p.any() for p in kept.values())


def test_a_run_names_its_parts_and_asks_for_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                 capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(OWN)
    assert main([*TRAIN, "--model.norm", "gain"]) == 2
    assert "--import the file that registers it" in capsys.readouterr().err
    assert main([*TRAIN, "--import", "own.py", "--model.norm", "gain"]) == 0
    following = "next: pellucid evaluate run --import own.py\n      pellucid translate run --import own.py\n"
    assert capsys.readouterr().out.endswith(following)
    assert main(["train", "run", "--import", "own.py"]) == 0
    assert capsys.readouterr().out.splitlines()[2] == "  pellucid train run --train.steps 4 --extend --import own.py"
    assert json.loads(Path("run/environment.json").read_text())["own"]["norm"]["file"] == "own.py"
    assert "\npellucid generate run --import own.py < input.txt\n" in Path("run/README.md").read_text()
    text = pellucid.load("run").generate(["1 2 3"])[0].text

    from pellucid import own

    registered = PARTS["norm"].pop("gain"), own._known.copy()
    own._known.clear()
    with pytest.raises(CheckpointError, match="of its own, 'gain'") as caught:
        pellucid.load("run")
    assert "--import own.py" in str(caught.value)
    assert main(["evaluate", "run"]) == 4
    Path("own.py").write_text(OWN + "# other words\n")
    capsys.readouterr()
    assert main(["evaluate", "run", "--import=own.py"]) == 0
    assert "is not from the file that run was made with" in capsys.readouterr().err
    PARTS["norm"]["gain"] = registered[0]
    with pytest.warns(PellucidWarning, match="is not from the file"):
        assert pellucid.load("run").generate(["1 2 3"])[0].text == text


@pytest.mark.parametrize(("file", "content", "said"), [
    ("own.py", "x = 1\nimport nothing_of_the_kind\n", "own.py:2"),
    ("own.py", "def f(:\n", "own.py:1"),
    ("own.py", "import pellucid\npellucid.register('norm', 'layernorm', int)\n", "ships with pellucid"),
    ("own.txt", "", "this is no Python file"),
    (None, "", "the file does not exist"),
])
def test_a_file_that_cannot_be_imported_is_one_screen(file: str | None, content: str, said: str, tmp_path: Path,
                                                      capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / (file or "absent.py")
    if file:
        path.write_text(content)
    assert main(["recipes", "--import", str(path)]) == 2
    assert said in capsys.readouterr().err
    assert main(["recipes", "--import"]) == 2


def test_a_study_passes_its_parts_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(OWN)
    Path("norms.yaml").write_text("base: copy\nfactors: {model.norm: [layernorm, gain]}\nseeds: [1]\n"
                                  "budget: {steps: 2}\nmetrics: [validation.loss]\n")
    words = [*TRAIN[4:6], *TRAIN[8:]]
    assert main(["ablate", "norms.yaml", "--import", "own.py", *words]) == 0
    report = Path("studies/norms/report.md").read_text()
    assert "--import own.py" in report
    assert "gain" in Path("studies/norms/results.csv").read_text()


def test_a_study_is_gone_on_with_by_the_command_of_its_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                              capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(OWN)
    Path("norms.yaml").write_text("base: copy\nfactors: {model.norm: [layernorm, gain]}\nseeds: [1]\n"
                                  "budget: {steps: 2}\nmetrics: [validation.loss]\n")
    told = list[str]()
    monkeypatch.setattr("pellucid.ablate.ablate.ablate", lambda study, out, jobs, command, reporter:
                        told.append(command) or ([], []))
    assert main(["ablate", "norms.yaml", "--import", "own.py", "--out", "study", "--json"]) == 0
    assert told == ["pellucid ablate norms.yaml --out study --json --import own.py"]
    PARTS["norm"].pop("gain")
    assert main(["ablate", "norms.yaml", "--dry-run"]) == 2
    assert "--import the file that registers it" in capsys.readouterr().err


def test_the_attention_of_the_documents_is_causal_and_sees_no_padding() -> None:
    page = (Path(__file__).parents[1] / "docs" / "own-parts.md").read_text(encoding="utf-8")
    exec(page.split("```python\n")[1].split("```")[0], {"__name__": "own"})
    model = pellucid.build(ModelConfig(**{**CONFIG, "attention": "sigmoid"}), 20, 20).eval()
    alone = model(SOURCE, TARGET)
    longer, real = torch.cat([SOURCE, SOURCE], 1), torch.arange(14).expand(3, 14) < 7
    torch.testing.assert_close(model(longer, torch.cat([TARGET, TARGET], 1), real)[:, :5], alone)


def test_a_file_may_hold_dataclasses_and_import_what_lies_beside_it(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("POWER = 3\n")
    (tmp_path / "own.py").write_text("from __future__ import annotations\nfrom dataclasses import dataclass\n"
                                     "from beside import POWER\n\n@dataclass\nclass Settings:\n"
                                     "    power: int = POWER\n\n" + OWN)
    before = list(sys.path)
    assert main(["recipes", "--import", str(tmp_path / "own.py")]) == 0
    assert sys.path == before
    assert "gain" in PARTS["norm"]


@pytest.mark.parametrize(("body", "said"), [("raise KeyError('mine')", "a part of your own failed: KeyError: 'mine'"),
                                            ("raise ValueError('mine')", "ValueError: mine"),
                                            ("return x[..., :3]", "this is a bug in pellucid or {}")])
def test_what_fails_in_a_part_of_ones_own_is_told_with_its_line(body: str, said: str, tmp_path: Path,
                                                                monkeypatch: pytest.MonkeyPatch,
                                                                capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(OWN.replace("return x * self.gain / 8", body))
    assert main([*TRAIN, "--import", "own.py", "--model.norm", "gain"]) != 0
    told = capsys.readouterr().err
    assert said.format("own.py") in told
    assert ("own.py:11" in told) == ("raise" in body)


def test_a_part_that_a_program_registered_is_known_by_the_file_of_its_class(tmp_path: Path,
                                                                            monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(OWN)
    assert main([*TRAIN, "--import", "own.py", "--model.norm", "gain"]) == 0
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own", raising=False)
    importlib.import_module("own")  # now it is registered by a program
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pellucid.load("run")
    Path("own.py").write_text(OWN + "# other words\n")
    monkeypatch.delitem(sys.modules, "own")
    importlib.import_module("own")
    with pytest.warns(PellucidWarning, match="is not from the file"):
        pellucid.load("run")
    monkeypatch.delitem(sys.modules, "own")
