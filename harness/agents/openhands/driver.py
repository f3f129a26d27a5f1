"""Runs the OpenHands SDK once: driver.py PROMPT_FILE WORKDIR STATE_DIR MAX_TURNS; exit code 1 after an error.

The model comes from LLM_MODEL, LLM_BASE_URL and LLM_API_KEY, which are taken out of the environment before the
agent's first command. Every event lies in STATE_DIR/conversations.
"""

import os
import sys
from pathlib import Path

from openhands.sdk import LLM, Agent, Conversation, Tool
from openhands.tools.file_editor import FileEditorTool
from openhands.tools.task_tracker import TaskTrackerTool
from openhands.tools.terminal import TerminalTool
from pydantic import SecretStr


def main() -> int:
    prompt_file, workdir, state, turns = sys.argv[1:5]
    llm = LLM(
        model=os.environ.pop("LLM_MODEL"),
        base_url=os.environ.pop("LLM_BASE_URL"),
        api_key=SecretStr(os.environ.pop("LLM_API_KEY")),
        usage_id="agent",
        num_retries=4,
    )
    agent = Agent(
        llm=llm,
        tools=[Tool(name=tool.name) for tool in (TerminalTool, FileEditorTool, TaskTrackerTool)],
        system_prompt_kwargs={"cli_mode": True},
    )
    conversation = Conversation(
        agent=agent,
        workspace=workdir,
        max_iteration_per_run=int(turns),
        persistence_dir=f"{state}/conversations",
        visualizer=None,
    )
    try:
        conversation.send_message(Path(prompt_file).read_text(encoding="utf-8"))
        conversation.run()
        status = str(conversation.state.execution_status.value)
        print(f"ended: {status}", flush=True)
        return 0 if status == "finished" else 1
    finally:
        conversation.close()


sys.exit(main())
