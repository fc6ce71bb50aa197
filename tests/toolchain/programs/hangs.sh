#!/bin/sh
# An interpreter that hangs while it imports TVM.
exec sleep 60
