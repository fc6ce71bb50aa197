#!/bin/sh
# An interpreter whose TVM is older than every dialect, and prints a line of its own.
echo "chatter of TVM"
echo 'passsearch-probe:{"python_version": "3.8", "tvm_version": "0.6", "tvm_commit": "", "llvm_version": "", "targets": [], "cuda": false, "cuda_device": false, "default_triple": "", "host_triple": ""}'
