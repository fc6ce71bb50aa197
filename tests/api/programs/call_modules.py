"""Compile PyTorch modules and call them in this process, which has both: ``call_modules.py PACKAGES FOLDER``.

PACKAGES is a folder with what passsearch needs, which comes after this interpreter's own packages.
"""

import gc
import sys
import warnings
from pathlib import Path

packages, folder = sys.argv[1:]
sys.path.append(packages)

import torch  # noqa: E402

import passsearch  # noqa: E402
from passsearch.api import torch_backend  # noqa: E402

registered = torch._dynamo.list_backends(exclude_tags=())
BACKEND = "passsearch" if "passsearch" in registered else torch_backend.compile_graph


class Module(torch.nn.Module):
    """Nested arguments and results, a setting, and a branch on a value, at which Dynamo cuts the graph."""

    def __init__(self):
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.dense = torch.nn.Linear(8, 5)
        self.dropout = torch.nn.Dropout(0.5)

    def forward(self, image, extra, *, scale=None, as_list=True):
        mean = torch.relu(self.norm(self.convolution(image))).mean((2, 3)) + extra["a"][0]
        if not torch.compiler.is_exporting() and not torch.jit.is_tracing() and mean.sum() > 1e9:
            mean = mean * 0
        scores = torch.tanh(self.dense(self.dropout(mean))) * (1 if scale is None else scale)
        return {"scores": scores, "more": [mean, mean > 0, None] if as_list else mean}


def close(one, other):
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def error_of(kind, call):
    """Return the text of the error that a call raises."""
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError("nothing was raised")


def refusal(*arguments, **named):
    text = error_of(passsearch.InputError, lambda: compiled(*arguments, **named))
    assert "\n" not in text
    return text


def told(call):
    """Return the warnings of passsearch in a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(each.message) for each in caught if "passsearch" in str(each.message)]


torch.manual_seed(0)
module = Module().eval()
image, extra, scale = torch.randn(2, 3, 8, 8), {"a": [torch.randn(1, 8)]}, torch.randn(2, 1)

# Without torch.compile.
with torch.no_grad():
    expected = module(image, extra, scale=scale)
    compiled = passsearch.compile(module, {"image": image, "extra": extra, "scale": scale}, rivals=[])
    assert compiled["toolchain"] == "this" and compiled.expected["runtime"] == f"PyTorch {torch.__version__}"
    outputs = compiled(image, extra, scale=scale)
    close(outputs, expected)
    assert list(outputs) == ["scores", "more"] and outputs["more"][2] is None
    close(compiled(image=image, extra=extra, scale=scale, as_list=True), expected)
    path = compiled.save(Path(folder) / "deploy")
    close(passsearch.load(path)(image, extra, scale=scale), expected)
    strided = torch.randn(2, 8, 8, 3).permute(0, 3, 1, 2)
    close(compiled(strided, extra, scale=scale), module(strided, extra, scale=scale))

assert refusal(image, extra).startswith("`scale` must be a tensor, and is `None`")
assert refusal(image, scale=scale).startswith("`extra` is missing; the network takes `image` float32[2, 3, 8, 8]")
assert refusal(image, extra, scale=scale, mask=scale).startswith("No input `mask` was among")
assert refusal(image, extra, scale=scale, as_list=False).startswith("No input `as_list` was among")
assert refusal(image, {"a": []}, scale=scale).startswith("The arguments are nested otherwise")
assert refusal(image[:1], extra, scale=scale).startswith("`image` must be float32[2, 3, 8, 8], and is float32[1, 3,")
assert "is float64[2, 3, 8, 8]; convert it: value.to(torch.float32)" in refusal(image.double(), extra, scale=scale)
assert refusal(image.to("meta"), extra, scale=scale).startswith("`image` is on meta, and the network runs on cpu")
gradient = compiled(image.clone().requires_grad_(), extra, scale=scale)["scores"].sum()
assert "compiles inference" in error_of(RuntimeError, gradient.backward)
temporary = Path(compiled["folder"])
compiled = None
assert not temporary.exists()


# What is returned belongs to the caller, although the compiler merges equal tensors and removes copies.
class Shared(torch.nn.Module):
    """Results that a compiler may put into one memory: the input's, a constant's or another result's."""

    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.arange(4.0))

    def forward(self, x):
        y = torch.relu(x) + 1
        return x.clone(), self.table * 2 + 1, y * 3, y * 3, (y * 1.0).reshape(4, 2)


shared, x = Shared().eval(), torch.randn(2, 4)
with torch.no_grad():
    compiled, expected_shared = passsearch.compile(shared, x, rivals=[]), shared(x)
    for _ in range(2):
        kept = x.clone()
        outputs = compiled(x)
        close(outputs, expected_shared)
        for place, output in enumerate(outputs):
            output.fill_(7)
            close(outputs[place + 1 :], expected_shared[place + 1 :])
        close(x, kept)
    close(compiled(torch._neg_view(x)), shared(-x))


class Number(torch.nn.Module):
    """A result that is no tensor and depends on the input."""

    def forward(self, x):
        y = torch.tanh(x)
        return y, float(y.sum())


try:
    compiled = passsearch.compile(Number().eval(), x, rivals=[])
except passsearch.errors.UserError:
    pass  # PyTorch does not export it
else:
    assert "return a tensor" in error_of(passsearch.errors.UserError, lambda: compiled(x))

# Within torch.compile: two graphs, with and without gradients, of which each is built once.
fast = torch.compile(module, backend=BACKEND)
assert told(lambda: close(fast(image, extra, scale=scale), expected)) == []
with torch.no_grad():
    assert told(lambda: close(fast(image, extra, scale=scale), expected)) == []
    assert len(torch_backend._networks) == 2
    close(fast(-image, extra, scale=scale), module(-image, extra, scale=scale))
    module.dense.weight.mul_(2)
    [line] = told(lambda: close(fast(image, extra, scale=scale), module(image, extra, scale=scale)))
    assert line.startswith("passsearch leaves `forward` (call_modules.py, line") and "weights have changed" in line
    assert told(lambda: fast(image, extra, scale=scale)) == [], "it is said once"
    other = torch.randn(3, 3, 8, 8)
    lines = told(lambda: close(fast(other, extra)["scores"], module(other, extra)["scores"]))
    assert lines and all("leaves" in line for line in lines)
module.train()
text = error_of(RuntimeError, lambda: fast(image, extra, scale=scale))
assert "`batch_norm` in `forward` (call_modules.py, line" in text and "is in training mode" in text
torch._dynamo.reset()
fast = None
gc.collect()
# PyTorch itself keeps what it has made of the rest of a function behind a graph break.
assert len(torch_backend._networks) < 2, "a network outlives the function that was compiled"
