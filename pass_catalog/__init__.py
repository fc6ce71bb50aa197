"""Facts about compiler passes: one folder of YAML files per dialect, which ``passsearch.catalog`` reads."""
