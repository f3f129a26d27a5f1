#!/bin/sh
# Puts the reference in place as files: images need neither git nor patch for it.
set -eu
cd "$(cat /solution/workdir)"
if [ -s /solution/deleted ]; then
    xargs -0 rm -f -- < /solution/deleted
fi
tar -x --no-same-owner -f /solution/change.tar
