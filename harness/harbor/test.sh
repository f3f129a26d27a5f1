#!/bin/sh
# Compares the work folder that Harbor brought here with the base, scores the difference, writes the reward.
exec /opt/beyondswe/bin/python3 -I -m beyondswe.export.harbor.verifier score
