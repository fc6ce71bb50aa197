"""Passes that rewrite the graph. Each file is one unit: an export copies it alone.

Before the lowering (``LegalizeOps``) they change which operators there are: ``expand_norms`` and ``expand_math`` write
operators out in simpler ones, ``merge_products`` and ``pad_weights`` change products and their weights, ``layouts`` and
``cancel_transpositions`` change layouts, ``winograd`` and ``subpixel`` replace convolutions, and ``fold_constant``
evaluates constants. After it they decide what becomes one kernel: ``cut_fusion`` and ``row_kernels``. ``passes`` has
passes of TVM whose constructors take more than plain values.
"""
