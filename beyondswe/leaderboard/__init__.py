"""The leaderboard: submissions packed out of runs, checked, scored again, and built into a static site."""
