#!/bin/sh
# Stands for `python -I -m venv FOLDER`: its child process writes a file beside FOLDER after a second.
(sleep 1; touch "$4-late") &
wait
