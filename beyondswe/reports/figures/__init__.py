"""The paper's figures from any set of runs: `data` says what is shown, `draw` makes SVG of it."""
