"""Small networks of many kinds with random weights, for `make_summaries.py`; needs torch and transformers."""

from collections.abc import Callable

import torch
import transformers
from torch import nn
from torch.nn import functional as F  # noqa: N812, the name torch users know


def cbr(i, o, k=3, s=1, g=1, act=nn.ReLU):
    layers = [nn.Conv2d(i, o, k, s, k // 2, groups=g, bias=False), nn.BatchNorm2d(o)]
    return nn.Sequential(*layers, *([act()] if act else []))


def classifier(body, channels):
    return nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))


class Skip(nn.Module):
    """A residual block: x + f(x), or p(x) + f(x) with a projection p."""

    def __init__(self, branch, shortcut=None, after=None):
        super().__init__()
        self.branch, self.shortcut, self.after = branch, shortcut or nn.Identity(), after or nn.Identity()

    def forward(self, x):
        return self.after(self.branch(x) + self.shortcut(x))


def basic(i, o, s=1, g=1):
    shortcut = cbr(i, o, 1, s, act=None) if s > 1 or i != o else None
    return Skip(nn.Sequential(cbr(i, o, 3, s, g), cbr(o, o, 3, 1, g, act=None)), shortcut, nn.ReLU())


def preactivated(i, o, s=1):
    branch = [nn.BatchNorm2d(i), nn.ReLU(), nn.Conv2d(i, o, 3, s, 1), nn.BatchNorm2d(o), nn.ReLU()]
    shortcut = nn.Conv2d(i, o, 1, s) if s > 1 or i != o else None
    return Skip(nn.Sequential(*branch, nn.Conv2d(o, o, 3, 1, 1)), shortcut)


def resnet(block, blocks=(2, 2, 2), **options):
    body, i = [cbr(3, 8, 7, 2)], 8
    for stage, number in enumerate(blocks):
        for position in range(number):
            body.append(block(i, 8 << stage, 2 if stage and not position else 1, **options))
            i = 8 << stage
    return classifier(body, i)


class Gate(nn.Module):
    """The gate of squeeze-and-excitation."""

    def __init__(self, c, act=nn.Sigmoid):
        super().__init__()
        self.f = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(c, 4, 1), nn.ReLU(), nn.Conv2d(4, c, 1), act())

    def forward(self, x):
        return x * self.f(x)


def inverted(i, o, s=1, k=3, act=nn.Hardswish):
    m = 4 * i
    gate = Gate(m, nn.Hardsigmoid)
    branch = nn.Sequential(cbr(i, m, 1, act=act), cbr(m, m, k, s, m, act=act), gate, cbr(m, o, 1, act=None))
    return Skip(branch) if s == 1 and i == o else branch


def mobilenet_v1():
    body, i = [cbr(3, 8, 3, 2)], 8
    for o, s in ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (64, 1)):
        body += [cbr(i, i, 3, s, i), cbr(i, o, 1)]
        i = o
    return classifier(body, i)


def mobilenet_v3():
    blocks = [inverted(16, 16, 2), inverted(16, 24, 2), inverted(24, 24, k=5), inverted(24, 24, k=5)]
    return classifier([cbr(3, 16, 3, 2, act=nn.Hardswish), *blocks], 24)


class Detector(nn.Module):
    """An SSD detector: class and box heads on the maps of every stage."""

    def __init__(self, stages, channels, gather="join", classes=6):
        super().__init__()
        self.stages, self.gather, self.classes = nn.ModuleList(stages), gather, classes
        self.boxes = nn.ModuleList(nn.Conv2d(c, 4 * 4, 3, 1, 1) for c in channels)
        self.scores = nn.ModuleList(nn.Conv2d(c, 4 * classes, 3, 1, 1) for c in channels)

    def forward(self, x):
        boxes, scores = [], []
        for stage, box, score in zip(self.stages, self.boxes, self.scores, strict=True):
            x = stage(x)
            boxes.append(self.rows(box(x), 4))
            scores.append(self.rows(score(x), self.classes))
        if self.gather == "join":
            return torch.cat(boxes, 1), torch.cat(scores, 1).softmax(-1)
        return (*boxes, *scores)

    def rows(self, x, fields):
        return x if self.gather == "maps" else x.permute(0, 2, 3, 1).reshape(x.shape[0], -1, fields)


def ssd_residual(gather):
    stem = nn.Sequential(cbr(3, 8, 7, 2), nn.MaxPool2d(3, 2, 1), basic(8, 8), basic(8, 16, 2), basic(16, 16))
    extras = [nn.Sequential(cbr(32, 16, 1), cbr(16, 32, 3, 2)) for _ in range(2)]
    return Detector([stem, nn.Sequential(basic(16, 32, 2), basic(32, 32)), *extras], (16, 32, 32, 32), gather)


def ssd_vgg():
    def stage(i, o):
        return nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(i, o, 3, 1, 1), nn.ReLU())

    stem = nn.Sequential(nn.Conv2d(3, 8, 3, 1, 1), nn.ReLU(), stage(8, 16), stage(16, 32))
    return Detector([stem, *(stage(32, 32) for _ in range(3))], (32,) * 4)


class Yolo(nn.Module):
    """A YOLO detector: three scales with a top-down path, predictions decoded against a grid per scale."""

    def __init__(self, classes=4):
        super().__init__()
        act = nn.SiLU

        def down(i, o):
            squeeze = nn.Sequential(cbr(o, o // 2, 1, act=act), cbr(o // 2, o, act=act))
            return nn.Sequential(cbr(i, o, 3, 2, act=act), Skip(squeeze))

        self.stages = nn.ModuleList([nn.Sequential(down(3, 8), down(8, 16), down(16, 32)), down(32, 32), down(32, 32)])
        self.necks = nn.ModuleList([cbr(32, 32, 1, act=act), *(cbr(64, 32, 1, act=act) for _ in range(2))])
        self.heads = nn.ModuleList(nn.Conv2d(32, 3 * (5 + classes), 1) for _ in range(3))
        self.fields = 5 + classes

    def forward(self, x):
        maps, predictions, top = [], [], None
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        for x, neck, head in zip(reversed(maps), self.necks, self.heads, strict=True):
            joined = x if top is None else torch.cat([F.interpolate(top, scale_factor=2.0), x], 1)
            top = neck(joined)
            predictions.append(self.decode(head(top)))
        return torch.cat(predictions, 1)

    def decode(self, x):
        n, _, h, w = x.shape
        y = x.view(n, 3, self.fields, h, w).permute(0, 1, 3, 4, 2).sigmoid()
        grid = torch.stack(torch.meshgrid(torch.arange(w), torch.arange(h), indexing="xy"), -1)
        centres = (y[..., :2] * 2 - 0.5 + grid.view(1, 1, h, w, 2)) * 8
        return torch.cat([centres, (y[..., 2:4] * 2) ** 2 * 16, y[..., 4:]], -1).view(n, -1, self.fields)


class UNet(nn.Module):
    """A U-Net: encoder, decoder, skips by concatenation, one output at each of three resolutions."""

    def __init__(self, flat):
        super().__init__()
        self.down = nn.ModuleList([cbr(3, 8), cbr(8, 16), cbr(16, 32), cbr(32, 64)])
        self.up = nn.ModuleList(nn.ConvTranspose2d(c, c // 2, 2, 2) for c in (64, 32, 16))
        self.merge = nn.ModuleList(cbr(c, c // 2) for c in (64, 32, 16))
        self.out, self.flat = nn.ModuleList(nn.Conv2d(c, 3, 1) for c in (32, 16, 8)), flat

    def forward(self, x):
        maps, outputs = [], []
        for position, stage in enumerate(self.down):
            x = stage(F.max_pool2d(x, 2) if position else x)
            maps.append(x)
        for up, merge, out, skip in zip(self.up, self.merge, self.out, maps[-2::-1], strict=True):
            x = merge(torch.cat([up(x), skip], 1))
            outputs.append(out(x))
        return torch.cat([y.flatten(2) for y in outputs], 2) if self.flat else tuple(outputs)


class Concatenating(nn.Module):
    """Branches on one value, concatenated: the block of Inception, or of DenseNet if one branch is the identity."""

    def __init__(self, *branches):
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x):
        return torch.cat([branch(x) for branch in self.branches], 1)


def densenet():
    layers = [Concatenating(nn.Identity(), nn.Sequential(cbr(c, 32, 1), cbr(32, 8))) for c in (16, 24, 32, 40)]
    return classifier([cbr(3, 16, 7, 2), *layers], 48)


def inception():
    def block(i):
        three, five = nn.Sequential(cbr(i, 8, 1), cbr(8, 16)), nn.Sequential(cbr(i, 8, 1), cbr(8, 16, 5))
        return Concatenating(cbr(i, 16, 1), three, five, nn.Sequential(nn.MaxPool2d(3, 1, 1), cbr(i, 16, 1)))

    return classifier([cbr(3, 16, 7, 2), block(16), block(64), block(64)], 64)


class ChannelNorm(nn.Module):
    """A layer norm over channels in primitives, as in ConvNeXt."""

    def __init__(self, c):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(c, 1, 1)), nn.Parameter(torch.zeros(c, 1, 1))

    def forward(self, x):
        mean = x.mean(1, keepdim=True)
        variance = (x - mean).pow(2).mean(1, keepdim=True)
        return self.scale * ((x - mean) / torch.sqrt(variance + 1e-6)) + self.shift


def convnext():
    def block(c):
        wide = [nn.Conv2d(c, 4 * c, 1), nn.GELU(), nn.Conv2d(4 * c, c, 1)]
        return Skip(nn.Sequential(nn.Conv2d(c, c, 7, 1, 3, groups=c), ChannelNorm(c), *wide))

    return classifier([nn.Conv2d(3, 16, 4, 4), *(block(16) for _ in range(4))], 16)


class Mixer(nn.Module):
    """An MLP-Mixer: dense layers mix tokens and channels; no attention."""

    def __init__(self, c=16, tokens=16):
        super().__init__()
        self.patch = nn.Conv2d(3, c, 16, 16)
        self.norms = nn.ModuleList(nn.LayerNorm(c) for _ in range(8))
        sizes = (tokens, c) * 4
        self.mixes = nn.ModuleList(nn.Sequential(nn.Linear(n, 32), nn.GELU(), nn.Linear(32, n)) for n in sizes)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        for position, (norm, mix) in enumerate(zip(self.norms, self.mixes, strict=True)):
            x = x + (mix(norm(x)) if position % 2 else mix(norm(x).transpose(1, 2)).transpose(1, 2))
        return x.mean(1)


class Recurrent(nn.Module):
    """An unrolled recurrent cell, optionally with Luong's attention over its states."""

    def __init__(self, cell, attention=False):
        super().__init__()
        self.cell, self.attention, self.out = cell(16, 16), attention, nn.Linear(16, 5)

    def forward(self, x):
        state, states = None, []
        for step in range(x.shape[1]):
            state = self.cell(x[:, step], state)
            states.append(state[0] if isinstance(state, tuple) else state)
        last = states[-1]
        if self.attention:
            every = torch.stack(states, 1)
            last = torch.bmm(torch.bmm(last[:, None], every.transpose(1, 2)).softmax(-1), every)[:, 0]
        return self.out(last)


class Recommender(nn.Module):
    """A DLRM recommender: products of embeddings between two perceptrons."""

    def __init__(self):
        super().__init__()
        self.bottom = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, 8), nn.ReLU())
        self.tables = nn.ModuleList(nn.Embedding(20, 8) for _ in range(5))
        self.top = nn.Sequential(nn.Linear(8 + 36, 32), nn.ReLU(), nn.Linear(32, 1), nn.Sigmoid())

    def forward(self, dense, sparse):
        x = self.bottom(dense)
        rows = torch.stack([x, *(table(sparse[:, column]) for column, table in enumerate(self.tables))], 1)
        return self.top(torch.cat([x, torch.bmm(rows, rows.transpose(1, 2)).flatten(1)], 1))


class Shuffle(nn.Module):
    """An exchange of channels between groups."""

    def __init__(self, groups):
        super().__init__()
        self.groups = groups

    def forward(self, x):
        b, c, h, w = x.shape
        return x.view(b, self.groups, c // self.groups, h, w).transpose(1, 2).reshape(b, c, h, w)


class Halves(nn.Module):
    """The unit of ShuffleNet v2, which computes one half of the channels and shuffles both."""

    def __init__(self, c):
        super().__init__()
        h = c // 2
        self.branch = nn.Sequential(cbr(h, h, 1), cbr(h, h, 3, 1, h, act=None), cbr(h, h, 1))
        self.shuffle = Shuffle(2)

    def forward(self, x):
        kept, computed = x.chunk(2, 1)
        return self.shuffle(torch.cat([kept, self.branch(computed)], 1))


def shufflenet():
    return classifier([cbr(3, 16, 3, 2), Halves(16), Halves(16), cbr(16, 32, 3, 2), Halves(32), Halves(32)], 32)


def vgg():
    last = [nn.Conv2d(16, 32, 3, padding=1), nn.ReLU()]
    return classifier([cbr(3, 8), cbr(8, 8), nn.MaxPool2d(2), cbr(8, 16), cbr(16, 16), nn.MaxPool2d(2), *last], 32)


class WideAndDeep(nn.Module):
    """A recommender with an input for each category, and a linear part beside its perceptron."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(30 + place, 6) for place in range(4))
        self.deep = nn.Sequential(nn.Linear(27, 16), nn.ReLU(), nn.Linear(16, 1))
        self.wide = nn.Linear(3, 1)

    def forward(self, x, *categories):
        rows = [table(category) for table, category in zip(self.tables, categories, strict=True)]
        return torch.sigmoid(self.deep(torch.cat([x, *rows], 1)) + self.wide(x))


class CollaborativeFilter(nn.Module):
    """A recommender with two tables of users and two of items (He et al., 2017)."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(size, 8) for size in (40, 50, 40, 50))
        self.deep = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU())
        self.last = nn.Linear(16, 1)

    def forward(self, user, item):
        a, b, c, d = (table(index) for table, index in zip(self.tables, (user, item, user, item), strict=True))
        return self.last(torch.cat([a * b, self.deep(torch.cat([c, d], 1))], 1))


def perceptron():
    layers = [Skip(nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))) for _ in range(4)]
    return nn.Sequential(nn.Linear(16, 32), *layers, nn.Softmax(-1), nn.Linear(32, 3))


class First(nn.Module):
    """The first output of a transformers network."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, *inputs):
        return self.network(*inputs, return_dict=False)[0]


def hub(network, config, **sizes):
    configuration = getattr(transformers, config)(**sizes)
    # Eager attention is written in primitives; the default is one fused operator that older exporters lack.
    return First(getattr(transformers, network)._from_config(configuration, attn_implementation="eager"))


TEXT = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
IMAGE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
DISTIL = {"vocab_size": 50, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64}
GPT = {"vocab_size": 50, "n_positions": 32, "n_embd": 32, "n_layer": 2, "n_head": 4}
DEEP_TEXT = {**TEXT, "vocab_size": 60, "hidden_size": 48, "num_hidden_layers": 3, "intermediate_size": 96}
OPT = {"vocab_size": 60, "hidden_size": 32, "word_embed_proj_dim": 32, "ffn_dim": 64, "num_hidden_layers": 2}
OPT |= {"num_attention_heads": 2, "max_position_embeddings": 32}
LEVIT = {"image_size": 64, "hidden_sizes": [16, 24, 32], "num_attention_heads": [2, 3, 4], "depths": [1, 1, 1]}
LEVIT |= {"key_dim": [8, 8, 8]}
MOBILEVIT = {"image_size": 64, "hidden_sizes": [24, 32, 40], "neck_hidden_sizes": [8, 8, 12, 16, 20, 24, 64]}
MOBILEVIT |= {"num_attention_heads": 2}
SEGFORMER = {"hidden_sizes": [8, 16, 24, 32], "num_attention_heads": [1, 2, 2, 4], "depths": [1, 1, 1, 1]}
STAGES = {"embedding_size": 8, "hidden_sizes": [16, 32, 48, 64], "depths": [1, 2, 2, 1]}
POOLFORMER = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]}
MOBILEBERT = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2, "embedding_size": 32}


def image(size=64):
    return (torch.randn(1, 3, size, size),)


def tokens():
    return (torch.randint(0, 50, (1, 12)),)


def masked_tokens():
    return (*tokens(), torch.ones(1, 12, dtype=torch.int64))


def categories(count):
    return tuple(torch.randint(0, 30, (2,)) for _ in range(count))


def sequence():
    return (torch.randn(1, 5, 16),)


NETWORKS: dict[str, tuple[Callable, Callable]] = {
    "resnet_basic": (lambda: resnet(basic), image),
    "resnet_preactivated": (lambda: resnet(preactivated), image),
    "resnext": (lambda: resnet(basic, g=4), image),
    "mobilenet_v1": (mobilenet_v1, image),
    "mobilenet_v3": (mobilenet_v3, image),
    "ssd_resnet": (lambda: ssd_residual("join"), lambda: image(128)),
    "ssd_resnet_list": (lambda: ssd_residual("list"), lambda: image(128)),
    "ssd_resnet_maps": (lambda: ssd_residual("maps"), lambda: image(128)),
    "ssd_vgg": (ssd_vgg, lambda: image(128)),
    "yolo": (Yolo, lambda: image(128)),
    "unet_supervised": (lambda: UNet(flat=False), image),
    "unet_flattened": (lambda: UNet(flat=True), image),
    "densenet": (densenet, image),
    "inception": (inception, image),
    "convnext": (convnext, image),
    "mixer": (Mixer, image),
    "lstm": (lambda: Recurrent(nn.LSTMCell), sequence),
    "gru": (lambda: Recurrent(nn.GRUCell), sequence),
    "lstm_attention": (lambda: Recurrent(nn.LSTMCell, attention=True), sequence),
    "recommender": (Recommender, lambda: (torch.randn(2, 13), torch.randint(0, 20, (2, 5)))),
    "residual_perceptron": (perceptron, lambda: (torch.randn(2, 16),)),
    "bert": (lambda: hub("BertModel", "BertConfig", **TEXT), tokens),
    "distilbert": (lambda: hub("DistilBertModel", "DistilBertConfig", **DISTIL), tokens),
    "mobilebert": (lambda: hub("MobileBertModel", "MobileBertConfig", **MOBILEBERT), tokens),
    "gpt2": (lambda: hub("GPT2LMHeadModel", "GPT2Config", **GPT), tokens),
    "llama": (lambda: hub("LlamaModel", "LlamaConfig", **TEXT), tokens),
    "vit": (lambda: hub("ViTModel", "ViTConfig", image_size=64, **IMAGE), image),
    "shufflenet": (shufflenet, image),
    "vgg": (vgg, image),
    "wide_and_deep": (WideAndDeep, lambda: (torch.randn(2, 3), *categories(4))),
    "collaborative_filter": (CollaborativeFilter, lambda: categories(2)),
    "opt": (lambda: hub("OPTForCausalLM", "OPTConfig", **OPT), masked_tokens),
    "bert_masked_lm": (lambda: hub("BertForMaskedLM", "BertConfig", **DEEP_TEXT), masked_tokens),
    "albert": (lambda: hub("AlbertModel", "AlbertConfig", embedding_size=16, **DEEP_TEXT), masked_tokens),
    "levit": (lambda: hub("LevitModel", "LevitConfig", **LEVIT), image),
    "mobilevit": (lambda: hub("MobileViTModel", "MobileViTConfig", **MOBILEVIT), image),
    "segformer": (lambda: hub("SegformerModel", "SegformerConfig", **SEGFORMER), image),
    "regnet": (lambda: hub("RegNetModel", "RegNetConfig", groups_width=8, **STAGES), image),
    "poolformer": (lambda: hub("PoolFormerModel", "PoolFormerConfig", **POOLFORMER), image),
}

LATER_OPSET = frozenset(list(NETWORKS)[list(NETWORKS).index("shufflenet") :])
"""Networks that are exported at opset 14, which has the triangular masks of decoders."""
