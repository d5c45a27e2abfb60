"""Models of torchvision, timm and transformers as PyTorch exports them to ONNX: architectures that people deploy, with
random weights of a fixed seed.

One architecture of each family of timm, its smallest, and of transformers small configurations. Of two in a row the
first is exported by TorchScript, the second by torch.export (``dynamo``). What an exporter refuses is printed and left
out. It needs an environment of its own: ``pip install torch torchvision timm transformers onnxscript``. With
``--exporter litert`` litert-torch writes the same models to TensorFlow Lite, where it is installed. The other
experiments measure the folder::

    python -m experiments.make.onnx_exports FOLDER [--only TEXT] [--exporter both]
    python -m experiments.compare.onnx_models FOLDER --time
"""

from __future__ import annotations

import argparse
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import timm
import torch
import torchvision
import transformers
from torch import Tensor, nn

OPSET = {"script": 17, "dynamo": 18}
"""By exporter, the operator set that it writes."""

LITERT = "litert"

TIMM = (
    "cait_xxs24_224 coat_tiny convit_tiny convmixer_768_32 cpubone_nano crossvit_tiny_240 cs3darknet_focus_s "
    "cspnext_tiny davit_tiny deit_tiny_patch16_224 dla46x_c dpn48b edgenext_xx_small efficientformer_l1 "
    "efficientformerv2_s0 efficientvim_m1 efficientvit_b0 efficientvit_m0 fasternet_t0 fastvit_t8 focalnet_tiny_srf "
    "gcvit_xxtiny ghostnet_050 gmlp_ti16_224 halonet_h1 hardcorenas_b hgnetv2_b0 hrnet_w18_small iformer_t "
    "inception_next_atto lcnet_035 lcnetv2_small legacy_seresnet18 levit_128s lowformer_b0 mobilenetv3_small_050 "
    "mobilenetv4_conv_small mobilevit_xxs mobilevitv2_050 mvitv2_tiny nest_tiny pit_ti_224 poolformerv2_s12 pvt_v2_b0 "
    "rdnet_tiny regnetx_002 repghostnet_050 repvit_m1 res2next50 resnest14d resnetv2_18 rexnet_100 selecsls42 "
    "sequencer2d_s shvit_s1 skresnet18 starnet_s050 swiftformer_xs swin_tiny_patch4_window7_224 "
    "swinv2_tiny_window8_256 swinv2_cr_tiny_224 test_byobnet test_coatnet test_convnext test_mambaout test_nfnet "
    "tiny_vit_5m_224 tnt_s_legacy_patch16_224 tresnet_m twins_svt_small visformer_tiny "
    "vit_tiny_patch16_dinov3_qkvb xcit_nano_12_p16_224"
)
LATER = "ese_vovnet19b_slim_dw hiera_tiny_224 legacy_xception test_vit_relpos volo_d1_224"
"""Further families of timm: they stand behind all others, as the exporter goes by the place."""

TORCHVISION = (
    "convnext_tiny densenet121 efficientnet_b0 googlenet inception_v3 mnasnet0_5 mobilenet_v2 mobilenet_v3_large "
    "regnet_y_400mf resnet18 resnext50_32x4d shufflenet_v2_x1_0 squeezenet1_1"
)
SEGMENTATION = ("deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large")

SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
CAUSAL = {**SMALL, "num_key_value_heads": 2, "vocab_size": 256}
IMAGES = {**SMALL, "image_size": 64, "patch_size": 16}
TRANSFORMERS: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    "Albert": ({**SMALL, "embedding_size": 32, "vocab_size": 256}, (1, 16)),
    "Bert": ({**SMALL, "vocab_size": 256}, (1, 16)),
    "ConvNext": ({"hidden_sizes": [16, 32, 64, 128], "depths": [1, 1, 2, 1]}, (1, 3, 64, 64)),
    "DeiT": (IMAGES, (1, 3, 64, 64)),
    "Dinov2": (IMAGES, (1, 3, 64, 64)),
    "DistilBert": ({"dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128, "vocab_size": 256}, (1, 16)),
    "Electra": ({**SMALL, "embedding_size": 32, "vocab_size": 256}, (1, 16)),
    "GPT2": ({"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 256}, (1, 16)),
    "Gemma": ({**CAUSAL, "head_dim": 16}, (1, 16)),
    "Llama": (CAUSAL, (1, 16)),
    "Mistral": (CAUSAL, (1, 16)),
    "MPNet": ({**SMALL, "vocab_size": 256}, (1, 16)),
    "Phi": (CAUSAL, (1, 16)),
    "Qwen2": (CAUSAL, (1, 16)),
    "Roberta": ({**SMALL, "vocab_size": 256}, (1, 16)),
    "Segformer": ({"hidden_sizes": [16, 32, 40, 64], "depths": [1, 1, 1, 1]}, (1, 3, 64, 64)),
    "Swin": ({"image_size": 64, "embed_dim": 24, "depths": [1, 2], "num_heads": [2, 4]}, (1, 3, 64, 64)),
    "ViT": (IMAGES, (1, 3, 64, 64)),
    "Wav2Vec2": ({**SMALL, "num_feat_extract_layers": 3, "conv_dim": [32] * 3, "conv_stride": [5, 2, 2],
                  "conv_kernel": [10, 3, 3], "num_conv_pos_embeddings": 16}, (1, 1600)),
    "Bloom": ({"hidden_size": 64, "n_layer": 2, "n_head": 4, "vocab_size": 256}, (1, 16)),
    "ConvNextV2": ({"hidden_sizes": [16, 32, 64, 128], "depths": [1, 1, 2, 1]}, (1, 3, 64, 64)),
    "FNet": ({**SMALL, "vocab_size": 256}, (1, 16)),
    "GPTNeoX": ({**SMALL, "vocab_size": 256}, (1, 16)),
    "OPT": ({"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 128, "vocab_size": 256,
             "word_embed_proj_dim": 64}, (1, 16)),
    "PoolFormer": ({"hidden_sizes": [16, 32, 40, 64], "depths": [1, 1, 2, 1]}, (1, 3, 64, 64)),
    "Pvt": ({"image_size": 64, "hidden_sizes": [16, 32, 40, 64], "depths": [1, 1, 1, 1]}, (1, 3, 64, 64)),
    "SqueezeBert": ({**SMALL, "embedding_size": 64, "vocab_size": 256}, (1, 16)),
    "Yolos": ({**IMAGES, "image_size": [64, 64], "num_detection_tokens": 8}, (1, 3, 64, 64)),
}  # fmt: skip

Made = Callable[[], tuple[nn.Module, Tensor]]


class First(nn.Module):
    """What a model gives first, of outputs that are no tensor."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        given = self.model(x)
        while not isinstance(given, Tensor):
            given = next(iter(given.values() if hasattr(given, "values") else given))
        return given


def architectures() -> Iterator[tuple[str, Made]]:
    """All architectures by name, with what makes the model and an input."""
    for name in TIMM.split():
        yield f"timm-{name}", lambda name=name: of_timm(name)
    for name in TORCHVISION.split():
        yield (
            f"torchvision-{name}",
            lambda name=name: (
                torchvision.models.get_model(name, weights=None, num_classes=10),
                torch.randn(1, 3, 299 if name == "inception_v3" else 224, 224 if name != "inception_v3" else 299),
            ),
        )
    for name in SEGMENTATION:
        yield (
            f"torchvision-{name}",
            lambda name=name: (
                torchvision.models.get_model(name, weights=None, weights_backbone=None, num_classes=4),
                torch.randn(1, 3, 256, 256),
            ),
        )
    for name in TRANSFORMERS:
        yield f"transformers-{name.lower()}", lambda name=name: of_transformers(name)
    for name in LATER.split():
        yield f"timm-{name}", lambda name=name: of_timm(name)


def of_timm(name: str) -> tuple[nn.Module, Tensor]:
    """A model of timm, and an image of the size that it is made for."""
    model = timm.create_model(name, pretrained=False, num_classes=10, exportable=True)
    return model, torch.randn(1, *model.default_cfg["input_size"])


def of_transformers(name: str) -> tuple[nn.Module, Tensor]:
    """A model of transformers, and an image, a sound or words."""
    sizes, shape = TRANSFORMERS[name]
    config = getattr(transformers, f"{name}Config")(**sizes)
    config.use_cache = False
    model = getattr(transformers, f"{name}Model")(config)
    return model, torch.randint(0, 256, shape) if shape == (1, 16) else torch.randn(shape)


def export(made: Made, seed: int, path: Path, exporter: str) -> None:
    """Write one model."""
    torch.manual_seed(seed)
    model, x = made()
    _trained(model)
    if exporter == LITERT:
        import litert_torch

        litert_torch.convert(First(model).eval(), (x,)).export(str(path))
        return
    moved = {"dynamo": True, "external_data": False} if exporter == "dynamo" else {"dynamo": False}
    with torch.no_grad():
        torch.onnx.export(First(model).eval(), (x,), path, opset_version=OPSET[exporter], verbose=False, **moved)


def _trained(model: nn.Module) -> None:
    """Draw what is one number all over, as norms and biases begin: some converters leave out what is multiplied by 0 or
    1, which training leaves of no layer.
    """
    with torch.no_grad():
        for each in model.parameters():
            if each.is_floating_point() and each.numel() > 1 and bool((each == each.flatten()[0]).all()):
                each.add_(torch.randn_like(each), alpha=0.1)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="those whose names have this in them")
    parser.add_argument(
        "--exporter", choices=("both", "each", LITERT, *OPSET), default="each", help="by default in turn"
    )
    asked = parser.parse_args(arguments)
    asked.folder.mkdir(parents=True, exist_ok=True)
    for number, (name, made) in enumerate(architectures()):
        exporters = [*OPSET] if asked.exporter in ("each", "both") else [asked.exporter]
        for exporter in reversed(exporters) if number % 2 else exporters:
            path = asked.folder / f"{name}-{exporter}.{'tflite' if exporter == LITERT else 'onnx'}"
            if asked.only not in path.stem:
                continue
            written = path.exists() or _exported(made, zlib.crc32(name.encode()), path, exporter)
            if written and asked.exporter != "both":  # the other one is for what the first refuses
                break


def _exported(made: Made, seed: int, path: Path, exporter: str) -> bool:
    """Write one model, and tell its size, or why an exporter refuses it."""
    try:
        export(made, seed, path, exporter)
    except Exception as error:  # what exporters raise has no common class
        path.unlink(missing_ok=True)
        said = str(error).splitlines() or [""]
        print(f"{path.stem}: {type(error).__name__}: {said[0][:120]}", flush=True)
        return False
    print(f"{path.stem}: {path.stat().st_size / 2**20:.1f} MB", flush=True)
    return True


if __name__ == "__main__":
    main()
