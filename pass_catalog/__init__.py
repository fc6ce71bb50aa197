"""Facts on compiler passes, one folder of YAML files per dialect: data, read by ``passsearch.catalog``."""
