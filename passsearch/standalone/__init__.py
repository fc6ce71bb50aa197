"""What runs where passsearch is not installed: own passes, schedules, the deployment script, loaders, and the probe.

Exports copy these files beside a network, and compilers of other environments load them, so they import the standard
library, numpy, TVM and each other only, and run on Python 3.8. ``tests/test_layering.py`` holds that.
"""
