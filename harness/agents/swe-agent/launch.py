"""Starts SWE-agent from its source tree on a repository that is already there, in the sandbox that it is in itself.

launch.py SOURCE PROMPT_FILE WORKDIR STATE_DIR MAX_TURNS
"""

import os
import runpy
import sys
from pathlib import Path


def main() -> None:
    source, prompt_file, workdir, state, turns = sys.argv[1:6]
    os.environ["SWE_AGENT_CONFIG_DIR"] = f"{source}/config"
    os.environ["SWE_AGENT_TOOLS_DIR"] = f"{source}/tools"
    os.environ["SWE_AGENT_TRAJECTORY_DIR"] = state
    sys.path.insert(0, source)
    output = Path(state, "out")
    sys.argv = [
        "sweagent",
        "run",
        "--config",
        f"{source}/config/default.yaml",
        "--agent.model.name",
        os.environ["SWE_AGENT_MODEL"],
        "--agent.model.api_base",
        os.environ["SWE_AGENT_BASE_URL"],
        "--agent.model.per_instance_call_limit",
        turns,
        "--agent.model.per_instance_cost_limit",
        "0",
        "--agent.model.total_cost_limit",
        "0",
        "--env.deployment.type",
        "local",
        "--env.repo.type",
        "preexisting",
        "--env.repo.repo_name",
        workdir.strip("/"),
        "--env.repo.reset",
        "false",
        "--problem_statement.path",
        prompt_file,
        "--output_dir",
        str(output),
    ]
    runpy.run_module("sweagent", run_name="__main__", alter_sys=True)


main()
