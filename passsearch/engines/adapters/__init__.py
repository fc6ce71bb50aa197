"""One module for each engine; ``passsearch.engines.contract`` says what it contains."""
