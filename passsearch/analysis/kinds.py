"""Groups of operator kinds, by their effect on data; the names are those of `core.summary.Operator.kind`."""

CONVOLUTIONS = frozenset({"conv1d", "conv2d", "conv3d", "deformable_conv2d"})
TRANSPOSED_CONVOLUTIONS = frozenset({"conv1d_transpose", "conv2d_transpose", "conv3d_transpose"})
MATMULS = frozenset({"dense", "matmul", "batch_matmul", "einsum"})
# Operators that may have weights. The depth of a network and the size of branches and blocks count these only.
HEAVY = CONVOLUTIONS | TRANSPOSED_CONVOLUTIONS | MATMULS

POOLS = frozenset(
    {
        *(f"{kind}_pool{rank}d" for kind in ("max", "avg") for rank in (1, 2, 3)),
        *(f"adaptive_{kind}_pool{rank}d" for kind in ("max", "avg") for rank in (1, 2, 3)),
        *(f"global_{kind}_pool{rank}d" for kind in ("max", "avg") for rank in (1, 2, 3)),
    }
)
PADS = frozenset({"pad", "mirror_pad"})
RESAMPLES = TRANSPOSED_CONVOLUTIONS | {
    "resize",
    "resize1d",
    "resize2d",
    "resize3d",
    "upsampling",
    "upsampling3d",
    "grid_sample",
    "depth_to_space",
}
TRANSPOSES = frozenset({"transpose", "permute_dims"})
QUANTIZES = frozenset({"quantize", "dequantize", "requantize", "simulated_quantize", "simulated_dequantize"})
# Operators that rearrange or convert values and compute nothing. Walks go through them: exporters insert and drop
# them freely, so a feature must not depend on them.
LAYOUTS = (
    TRANSPOSES
    | QUANTIZES
    | {
        "reshape",
        "contrib_reverse_reshape",
        "reverse_reshape",
        "batch_flatten",
        "flatten",
        "squeeze",
        "expand_dims",
        "cast",
        "astype",
        "cast_like",
        "layout_transform",
        "copy",
        "identity",
        "dropout",
        "stop_fusion",
        "device_copy",
        "reshape_like",
    }
)
RESHAPES = frozenset(
    {
        "reshape",
        "contrib_reverse_reshape",
        "reverse_reshape",
        "batch_flatten",
        "flatten",
        "squeeze",
        "reshape_like",
    }
)
SLICES = frozenset({"split", "strided_slice", "slice_like", "take", "gather", "unbind"})
JOINS = frozenset({"concatenate", "concat", "stack"})
ACTIVATIONS = frozenset(
    {
        "relu",
        "relu6",
        "leaky_relu",
        "prelu",
        "clip",
        "sigmoid",
        "tanh",
        "erf",
        "softplus",
        "silu",
        "gelu",
        "elu",
    }
    | {"hard_sigmoid", "hard_swish", "fast_tanh", "fast_erf"}
)
SOFTMAXES = frozenset({"softmax", "fast_softmax"})
ARITHMETIC = frozenset(
    {
        "add",
        "subtract",
        "multiply",
        "divide",
        "power",
        "maximum",
        "minimum",
        "negative",
        "sqrt",
        "rsqrt",
        "exp",
    }
    | {"fast_exp", "where", "bias_add", "clip"}
)
