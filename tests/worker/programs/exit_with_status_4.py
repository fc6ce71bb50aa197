import sys

print("built")
sys.exit(4)
