"""Plays SWE-agent: asks the model by chat completions with its tools, writes ID/ID.traj, .patch and .pred.

Its habits are kept: it exits with 0 whatever happened, asks twice before it hands in, counts received tokens as 0,
and leaves its changes staged.
"""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

OPTIONS = {
    "--config",
    "--agent.model.name",
    "--agent.model.api_base",
    "--agent.model.per_instance_call_limit",
    "--agent.model.per_instance_cost_limit",
    "--agent.model.total_cost_limit",
    "--env.deployment.type",
    "--env.repo.type",
    "--env.repo.repo_name",
    "--env.repo.reset",
    "--problem_statement.path",
    "--output_dir",
}


def tool(name: str, *properties: str) -> dict[str, object]:
    schema = {
        "type": "object",
        "properties": {p: {"type": "string"} for p in properties},
        "required": properties[:1],
    }
    return {"type": "function", "function": {"name": name, "description": name, "parameters": schema}}


TOOLS = [
    tool("bash", "command"),
    tool("str_replace_editor", "command", "path", "file_text", "old_str", "new_str"),
    tool("submit"),
]


def edit(command: str, path: str, old_str: str = "", new_str: str = "", file_text: str = "") -> str:
    file = Path(path)
    if command == "create":
        file.write_text(file_text)
    elif command == "str_replace":
        file.write_text(file.read_text().replace(old_str, new_str))
    return file.read_text()


def main() -> None:
    assert sys.argv[1] == "run", sys.argv
    given = dict(zip(sys.argv[2::2], sys.argv[3::2], strict=True))
    assert set(given) == OPTIONS, set(given) ^ OPTIONS
    assert Path(given["--config"]).is_file() and given["--env.deployment.type"] == "local"
    assert Path(os.environ["SWE_AGENT_TOOLS_DIR"]).is_dir()
    repository = "/" + given["--env.repo.repo_name"]
    messages = [{"role": "user", "content": Path(given["--problem_statement.path"]).read_text()}]
    trajectory, sent, asked, status = [], 0, 0, ""
    url = given["--agent.model.api_base"] + "/chat/completions"
    headers = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "Content-Type": "application/json"}
    while not status:
        if len(trajectory) >= int(given["--agent.model.per_instance_call_limit"]):
            status = "exit_cost"
            break
        name = given["--agent.model.name"].removeprefix("openai/")
        body = json.dumps({"model": name, "messages": messages, "tools": TOOLS}).encode()
        try:
            with urllib.request.urlopen(urllib.request.Request(url, body, headers)) as answer:
                content = json.load(answer)
        except urllib.error.HTTPError:
            status = "exit_error"
            trajectory.append(
                {"action": "", "observation": "", "response": "Exit due to an error", "thought": ""}
            )
            break
        sent += content["usage"]["prompt_tokens"]
        message = content["choices"][0]["message"]
        messages.append(message)
        for call in message.get("tool_calls") or []:
            called, words = call["function"]["name"], json.loads(call["function"]["arguments"])
            if called == "submit":
                asked += 1
                action, observation = "submit", "Please review your changes, then submit again."
                status = "submitted" if asked == 2 else ""
            elif called == "bash":
                action = words["command"]
                done = subprocess.run(action, shell=True, cwd=repository, capture_output=True, text=True)
                observation = done.stdout + done.stderr
            else:
                action, observation = f"str_replace_editor {words['command']} {words['path']}", edit(**words)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": observation})
            step = {
                "action": action,
                "observation": observation,
                "response": "",
                "thought": message["content"] or "",
            }
            trajectory.append(step)
    patch = subprocess.run(
        "git add -A && git diff --cached", shell=True, cwd=repository, capture_output=True, text=True
    ).stdout
    stats = {"instance_cost": 0.0, "tokens_sent": sent, "tokens_received": 0, "api_calls": len(trajectory)}
    info = {"exit_status": status, "submission": patch, "model_stats": stats}
    folder = Path(given["--output_dir"]) / "c0ffee"
    folder.mkdir(parents=True)
    (folder / "c0ffee.traj").write_text(
        json.dumps({"trajectory": trajectory, "history": messages, "info": info})
    )
    (folder / "c0ffee.patch").write_text(patch)
    (folder / "c0ffee.pred").write_text(json.dumps({"instance_id": "c0ffee", "model_patch": patch}))


main()
