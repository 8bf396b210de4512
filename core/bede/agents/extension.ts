// bede: written by "bede install-hooks", which overwrites it; "bede uninstall-hooks" takes it away again.
// It tells Bede what this session does and hands on what Bede answers. When Bede cannot answer, nothing happens.

import { spawnSync } from "node:child_process";

const AGENT = "pi";
const COMMAND = ["bede"];
const EDITS = new Set(["edit", "write", "apply_patch", "ast_edit", "multi_edit", "notebook"]);
const PATCH = "*** Begin Patch";

function ask(hook, ctx, event, timeout = 3000) {
  const [program, ...words] = COMMAND;
  try {
    const body = {
      agent: AGENT,
      hook,
      cwd: ctx?.cwd ?? "",
      session_file: ctx?.sessionManager?.getSessionFile?.() ?? null,
      session_id: ctx?.sessionManager?.getSessionId?.() ?? null,
      event,
    };
    const done = spawnSync(program, [...words, "hook", hook, "--agent", AGENT], {
      input: JSON.stringify(body),
      encoding: "utf8",
      timeout,
      maxBuffer: 1 << 20,
      windowsHide: true,
    });
    const answer = done.status === 0 ? JSON.parse(done.stdout || "{}") : {};
    return answer !== null && typeof answer === "object" ? answer : {};
  } catch {
    return {};
  }
}

// Of what a tool is given, only what can name a file.
function short(input) {
  const kept = {};
  for (const [name, value] of Object.entries(input ?? {})) {
    if (typeof value !== "string" || value.length < 4096 || value.includes(PATCH)) kept[name] = value;
    else if (name === "input") kept[name] = (value.match(/^\[[^\]\r\n#]+#\w+\]/gm) ?? []).join("\n");
  }
  return kept;
}

const writes = (event) =>
  EDITS.has(event.toolName) || (event.toolName === "bash" && String(event.input?.command).includes(PATCH));

export default function (pi) {
  let brief = ""; // what the session is told with its next prompt

  const on = (name, work) => {
    try {
      pi.on(name, async (event, ctx) => {
        try {
          return work(event ?? {}, ctx);
        } catch {
          return undefined;
        }
      });
    } catch {
      // A version that does not know the event goes without it.
    }
  };

  on("session_start", (event, ctx) => {
    brief = ask("session_start", ctx, { reason: event.reason }).context ?? "";
  });
  on("session_compact", (_event, ctx) => {
    brief = ask("session_compact", ctx, {}).context ?? "";
  });
  on("before_agent_start", (event, ctx) => {
    const { context } = ask("before_agent_start", ctx, { prompt: event.prompt });
    const content = [brief, context].filter(Boolean).join("\n\n");
    brief = "";
    return content ? { message: { customType: "bede", content, display: false } } : undefined;
  });
  on("tool_call", (event, ctx) => {
    if (!writes(event)) return undefined;
    const { toolName, toolCallId } = event;
    const answer = ask("tool_call", ctx, { toolName, toolCallId, input: short(event.input) });
    return answer.deny ? { block: true, reason: String(answer.reason ?? "refused") } : undefined;
  });
  on("tool_result", (event, ctx) => {
    if (!writes(event)) return undefined;
    const { toolName, toolCallId, isError } = event;
    const { context } = ask("tool_result", ctx, { toolName, toolCallId, isError, input: short(event.input) });
    return context ? { content: [...(event.content ?? []), { type: "text", text: context }] } : undefined;
  });
  on("agent_end", (_event, ctx) => {
    ask("agent_end", ctx, {}, 10000);
  });
  on("session_shutdown", (_event, ctx) => {
    ask("session_shutdown", ctx, {}, 10000);
  });
}
