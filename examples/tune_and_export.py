"""Tune a built-in network, print the result and export a script that rebuilds it."""

import passsearch

result = passsearch.tune("zoo:resnet_tiny", trials=10, confirm=2, out="runs/example")
print(result)
print("pipeline:", result.best.pipeline)
print("rebuild with:", result.export("runs/example-deploy") / "build_model.py")
