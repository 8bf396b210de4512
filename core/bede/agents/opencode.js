// bede: written by "bede install-hooks", which overwrites it; "bede uninstall-hooks" takes it away again.
// It tells Bede what this session does and hands on what Bede answers. When Bede cannot answer, nothing happens.

import { spawnSync } from "node:child_process";

const COMMAND = ["bede"];
const EDITS = new Set(["edit", "write", "multiedit", "patch", "apply_patch"]);
const PATCH = "*** Begin Patch";

const briefs = new Map(); // session → what it was told at its start; a system prompt is made anew for every request
const hints = new Map(); // session → what its last prompt brought up, where it cannot be put beside the prompt
const idle = new Set(); // sessions that came to rest
const parents = new Map(); // session of a sub-agent → the session that started it

function ask(hook, body, timeout = 3000) {
  const [program, ...words] = COMMAND;
  try {
    const done = spawnSync(program, [...words, "hook", hook, "--agent", "opencode"], {
      input: JSON.stringify({ agent: "opencode", hook, ...body }),
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

function quietly(work) {
  return async (...given) => {
    try {
      return await work(...given);
    } catch {
      return undefined;
    }
  };
}

// Of what a tool is given, only what can name a file.
function short(args) {
  const kept = {};
  for (const [name, value] of Object.entries(args ?? {})) {
    if (typeof value !== "string" || value.length < 4096 || value.includes(PATCH)) kept[name] = value;
  }
  return kept;
}

const writes = (tool, args) => EDITS.has(tool) || (tool === "bash" && String(args?.command).includes(PATCH));

function above(session) {
  let found = session;
  for (let step = 0; parents.has(found) && step < 20; step++) found = parents.get(found);
  return found === session ? "" : found;
}

function brief(session, body) {
  if (!session) return "";
  if (!briefs.has(session)) briefs.set(session, ask("experimental.chat.system.transform", body).context ?? "");
  return briefs.get(session);
}

// A session comes to rest twice: as a status, after which a single run may be over, and as an event of its own.
function rest(session, body) {
  if (body.parent || idle.has(session)) return;
  idle.add(session);
  ask("session.idle", body, 10000);
}

// What happens to a session, told alike by both generations of plugins.
function happened(event, where) {
  const told = event?.properties ?? event?.data ?? {};
  const session = told.sessionID ?? told.info?.id;
  if (!session) return;
  // A message has a parent too, which is a message.
  if (event.type.startsWith("session.") && told.info?.parentID) parents.set(session, told.info.parentID);
  const body = { ...where, parent: above(session), input: { event } };
  if (event.type === "session.compacted") briefs.set(session, ask(event.type, body).context ?? "");
  if (event.type === "session.status" && told.status?.type === "busy") idle.delete(session);
  if (event.type === "session.idle" || told.status?.type === "idle") rest(session, body);
  if (event.type !== "session.deleted") return;
  if (!body.parent) ask(event.type, body, 10000);
  for (const each of [briefs, hints, idle, parents]) each.delete(session);
}

async function server({ directory, worktree }) {
  const where = { plugin_api: 1, directory, worktree };
  const body = (input, output) => ({ ...where, parent: above(input?.sessionID), input, output });
  return {
    event: quietly(({ event }) => happened(event, where)),
    "chat.message": quietly((input, output) => {
      const text = (output.parts ?? []).find((part) => part.type === "text");
      if (!text) return;
      const said = { sessionID: input.sessionID ?? output.message?.sessionID };
      const parts = output.parts.filter((part) => part.type === "text" && !part.synthetic);
      const { context } = ask("chat.message", body(said, { parts }));
      if (context) output.parts.push({ ...text, id: `${text.id}bede`, text: context, synthetic: true });
    }),
    "experimental.chat.system.transform": quietly((input, output) => {
      const text = brief(input.sessionID, body({ sessionID: input.sessionID }));
      if (text) output.system.push(text);
    }),
    "tool.execute.before": async (input, output) => {
      const answer = await quietly(() =>
        writes(input.tool, output.args)
          ? ask("tool.execute.before", body(input, { args: short(output.args) }))
          : {},
      )();
      if (answer?.deny) throw new Error(String(answer.reason ?? "refused"));
    },
    "tool.execute.after": quietly((input, output) => {
      if (!writes(input.tool, input.args)) return;
      const { context } = ask("tool.execute.after", body({ ...input, args: short(input.args) }));
      if (context && typeof output?.output === "string") output.output += `\n${context}`;
    }),
  };
}

async function setup(ctx) {
  const where = { plugin_api: 2, directory: ctx?.location?.directory ?? "" };
  const body = (input) => ({ ...where, parent: above(input.sessionID), input });
  const on = async (owner, name, work) => quietly(() => owner.hook(name, quietly(work)))();
  await on(ctx?.permission, "evaluate", (event) => {
    if (event.effect === "deny") return;
    const { sessionID, action, resources } = event;
    const answer = ask("permission.evaluate", body({ sessionID, action, resources }));
    if (answer.deny) Object.assign(event, { effect: "deny", message: String(answer.reason ?? "refused") });
  });
  await on(ctx?.session, "prompt", (event) => {
    const asked = { sessionID: event.sessionID, prompt: { text: event.prompt?.text } };
    hints.set(event.sessionID, ask("session.prompt", body(asked)).context ?? "");
  });
  await on(ctx?.session, "context", (event) => {
    const texts = [brief(event.sessionID, body({ sessionID: event.sessionID })), hints.get(event.sessionID)];
    for (const text of texts.filter(Boolean)) event.system.push({ type: "text", text });
  });
  await on(ctx?.tool, "execute.after", (event) => {
    const { sessionID, tool, status } = event;
    if (writes(tool, event.input)) {
      ask("tool.execute.after", body({ sessionID, tool, status, input: short(event.input) }));
    }
  });
  const ended = new AbortController();
  quietly(async () => {
    for await (const event of ctx.event.subscribe({ signal: ended.signal })) await quietly(happened)(event, where);
  })();
  return () => ended.abort();
}

export default { id: "bede", server, setup };
